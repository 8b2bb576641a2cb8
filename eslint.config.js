import eslint from '@eslint/js'
import tseslint from 'typescript-eslint'

/**
 * Rooms of `src/` and what each may import. Everything points one way:
 * native <- engine <- chat <- openai <- server <- cli; errors, config and text are leaves.
 */
const ROOMS = [
  'native',
  'errors',
  'config',
  'version',
  'text',
  'hub',
  'engine',
  'chat',
  'openai',
  'server',
  'cli',
  'index',
]
const MAY_IMPORT = {
  text: ['errors'],
  hub: ['errors'],
  engine: ['native', 'errors', 'text'],
  chat: ['errors', 'text'],
  openai: ['errors', 'text', 'chat'],
  server: ['errors', 'config', 'version', 'text', 'engine', 'chat', 'openai'],
  cli: ['errors', 'config', 'version', 'text', 'hub', 'engine', 'chat', 'openai', 'server', 'native', 'index'],
}
/** Rooms that a room may name in types only. */
const TYPES_ONLY = { chat: ['engine'], openai: ['engine'] }
/** Single files with a wider view, each with its reason. */
const EXCEPTIONS = [
  {
    files: ['src/engine/maple.ts'],
    room: 'engine',
    more: ['hub', 'chat', 'config'],
    why: 'composes engine, text and chat into one class',
  },
  {
    files: ['src/chat/run.ts'],
    room: 'chat',
    more: ['engine'],
    why: 'joins the token stream with stop strings and the parser',
  },
]

const pattern = (rooms) => `^(\\./|(\\.\\./)+)(${rooms.join('|')})(/|\\.js$)`

function direction(room, more = []) {
  const allowed = [room, ...MAY_IMPORT[room], ...more]
  const typesOnly = (TYPES_ONLY[room] ?? []).filter((other) => !allowed.includes(other))
  const forbidden = ROOMS.filter((other) => !allowed.includes(other) && !typesOnly.includes(other))
  const patterns = [
    { regex: pattern(forbidden), message: `src/${room} may import ${MAY_IMPORT[room].join(', ')} only.` },
  ]
  if (typesOnly.length > 0) {
    patterns.push({
      regex: pattern(typesOnly),
      allowTypeImports: true,
      message: `src/${room} sees this room as types only.`,
    })
  }
  return { '@typescript-eslint/no-restricted-imports': ['error', { patterns }] }
}

export default tseslint.config(
  { ignores: ['dist/', 'target/', 'node_modules/', 'index.js', 'index.d.ts', 'browser.js', 'models/', '**/fixtures/'] },
  eslint.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      // An abort signal's reason is handed on as it is.
      '@typescript-eslint/prefer-promise-reject-errors': [
        'error',
        { allowThrowingUnknown: true, allowThrowingAny: true },
      ],
      // An async generator or method may satisfy an interface without awaiting anything itself.
      '@typescript-eslint/require-await': 'off',
    },
  },
  {
    files: ['src/**/*.ts'],
    ignores: ['src/config.ts'],
    rules: {
      'no-restricted-properties': [
        'error',
        { object: 'process', property: 'env', message: 'Only src/config.ts reads the environment.' },
      ],
    },
  },
  ...Object.keys(MAY_IMPORT).map((room) => ({ files: [`src/${room}/**/*.ts`], rules: direction(room) })),
  ...EXCEPTIONS.map(({ files, room, more }) => ({ files, rules: direction(room, more) })),
  {
    files: ['__test__/**/*.ts'],
    rules: {
      // tap keeps track of its own subtests, and tests look into untyped JSON bodies.
      '@typescript-eslint/no-floating-promises': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/no-explicit-any': 'off',
    },
  },
  {
    files: ['**/*.js', '**/*.mjs'],
    languageOptions: {
      globals: Object.fromEntries(
        [
          'console',
          'process',
          'fetch',
          'Buffer',
          'URL',
          'performance',
          'setTimeout',
          'clearTimeout',
          'AbortController',
        ].map((name) => [name, 'readonly']),
      ),
    },
  },
)
