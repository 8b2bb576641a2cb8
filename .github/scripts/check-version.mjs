// The package, its platform packages and the crates have one version: node check-version.mjs [VERSION]
import { readFileSync } from 'node:fs'

const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const own = JSON.parse(read('package.json'))
const crates = /\[workspace\.package\][^[]*?^version = "([^"]+)"/m.exec(read('Cargo.toml'))?.[1]
const found = { 'package.json': own.version, 'Cargo.toml': crates }
for (const [name, version] of Object.entries(own.optionalDependencies ?? {})) found[name] = version
const expected = process.argv[2] ?? own.version
const wrong = Object.entries(found).filter(([, version]) => version !== expected)
for (const [where, version] of wrong) console.error(`${where}: version ${version}, expected ${expected}`)
process.exit(wrong.length === 0 ? 0 : 1)
