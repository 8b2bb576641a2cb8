// `npm start`: serves the small model that comes with the package, unless the environment names another. Flags go after `--`.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const sprout = fileURLToPath(new URL('../models/sprout', import.meta.url))
const fixture = fileURLToPath(new URL('../__test__/fixtures/tiny-hf-sharded', import.meta.url))
process.env.MAPLE_MODEL_PATH ||= existsSync(sprout) ? 'sprout' : fixture
process.argv.splice(2, 0, 'serve')
await import('../dist/cli/main.js')
