/**
 * The rooms of `src/`, folders and single files, each with the rooms it may import: a line has to be here to be allowed.
 * ESLint enforces it, and a test compares it with what CONTRIBUTING.md says.
 */
export const MAY_IMPORT = {
  errors: [],
  version: [],
  config: ['errors'],
  text: ['errors'],
  hub: ['errors'],
  native: ['errors', 'version'],
  engine: ['native', 'errors', 'text'],
  chat: ['errors', 'text', 'engine'],
  maple: ['chat', 'engine', 'hub', 'native', 'config', 'errors', 'text'],
  openai: ['errors', 'text', 'chat'],
  server: ['errors', 'config', 'version', 'text', 'engine', 'chat', 'openai'],
  cli: ['errors', 'config', 'version', 'text', 'hub', 'engine', 'chat', 'openai', 'server', 'native', 'maple', 'index'],
  index: ['errors', 'config', 'text', 'hub', 'engine', 'chat', 'server', 'maple'],
}
