/**
 * The rooms of `src/`, folders and single files, each with the rooms it may import: a line has to be here to be allowed.
 * ESLint enforces it, and a test compares it with what CONTRIBUTING.md says.
 */
export const MAY_IMPORT = {
  errors: [],
  version: [],
  'regular-file': [],
  config: ['errors'],
  text: ['errors', 'regular-file'],
  hub: ['errors', 'regular-file'],
  native: ['errors', 'version'],
  engine: ['native', 'errors', 'text'],
  chat: ['errors', 'text', 'engine'],
  maple: ['chat', 'engine', 'hub', 'native', 'config', 'errors', 'text'],
  wire: ['errors', 'chat'],
  protocols: ['errors', 'chat', 'wire'],
  server: ['errors', 'config', 'version', 'text', 'engine', 'chat', 'wire', 'protocols'],
  cli: [
    'errors',
    'config',
    'version',
    'text',
    'hub',
    'engine',
    'chat',
    'wire',
    'protocols',
    'server',
    'native',
    'maple',
    'index',
  ],
  index: ['errors', 'config', 'text', 'hub', 'engine', 'chat', 'server', 'maple'],
}
