// `npm start` in a clone: serves the small model that comes along, unless the environment or a flag names another. Flags go after `--`.
process.env.MAPLE_MODEL_PATH ||= 'sprout'
process.argv.splice(2, 0, 'serve')
await import('../../dist/cli/main.js')
