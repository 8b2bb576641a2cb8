import { existsSync } from 'node:fs'
import eslint from '@eslint/js'
import { createNodeResolver, importX } from 'eslint-plugin-import-x'
import tseslint from 'typescript-eslint'
import { MAY_IMPORT } from './__test__/house/rooms.js'

const ROOMS = Object.keys(MAY_IMPORT)
const isFile = (room) => existsSync(new URL(`src/${room}.ts`, import.meta.url))
const pattern = (from, rooms) => `^${isFile(from) ? '\\./' : '(\\./|(\\.\\./)+)'}(${rooms.join('|')})(/|\\.js$)`

/** The rule that keeps a room to the rooms it may import. */
function direction(room) {
  const forbidden = ROOMS.filter((other) => other !== room && !MAY_IMPORT[room].includes(other))
  const message = `${room} may import ${MAY_IMPORT[room].join(', ') || 'no other room'} (__test__/house/rooms.js).`
  return {
    '@typescript-eslint/no-restricted-imports': ['error', { patterns: [{ regex: pattern(room, forbidden), message }] }],
  }
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
    // A loop among files means that none of them can be read alone. Loops of types are found by __test__/house.
    files: ['src/**/*.ts', '__test__/**/*.ts', 'bench/**/*.mjs', '__test__/**/*.mjs', '.github/**/*.mjs'],
    plugins: { 'import-x': importX },
    settings: {
      'import-x/extensions': ['.ts', '.js', '.mjs'],
      'import-x/parsers': { '@typescript-eslint/parser': ['.ts'] },
      'import-x/resolver-next': [createNodeResolver({ extensionAlias: { '.js': ['.ts', '.js'] } })],
    },
    rules: { 'import-x/no-cycle': ['error', { ignoreExternal: true }] },
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
  ...ROOMS.map((room) => ({ files: [`src/${room}/**/*.ts`, `src/${room}.ts`], rules: direction(room) })),
  {
    // A protocol can be read, and taken away, without the others.
    files: ['src/protocols/*/*.ts'],
    rules: {
      '@typescript-eslint/no-restricted-imports': [
        'error',
        {
          patterns: [
            ...direction('protocols')['@typescript-eslint/no-restricted-imports'][1].patterns,
            { regex: '^\\.\\./(?!\\.\\./|protocol\\.js$)', message: 'A protocol imports nothing of another.' },
          ],
        },
      ],
    },
  },
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
          'AbortSignal',
        ].map((name) => [name, 'readonly']),
      ),
    },
  },
)
