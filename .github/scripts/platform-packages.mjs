// Names every platform's package, at the package's own version, as optional dependencies in FOLDER/package.json. Done when
// packing, not in the repository: a clone builds its addon and must not look for packages that may not be published yet.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const folder = process.argv[2] ?? '.'
const path = join(folder, 'package.json')
const own = JSON.parse(readFileSync(path, 'utf8'))
const names = readdirSync(join(folder, 'npm')).map((dir) =>
  JSON.parse(readFileSync(join(folder, 'npm', dir, 'package.json'), 'utf8')),
)
own.optionalDependencies = Object.fromEntries(names.map(({ name }) => [name, own.version]).sort())
delete own.scripts
delete own.devDependencies
writeFileSync(path, `${JSON.stringify(own, null, 2)}\n`)
