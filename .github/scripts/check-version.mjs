// The package, its lock files, its platform packages, the crates and the image in deploy/ have one version: node check-version.mjs [VERSION]
import { readFileSync } from 'node:fs'

const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const own = JSON.parse(read('package.json'))
const expected = process.argv[2] ?? own.version
const lock = JSON.parse(read('package-lock.json'))
const found = {
  'package.json': own.version,
  'package-lock.json': lock.packages[''].version,
  'Cargo.toml': /\[workspace\.package\][^[]*?^version = "([^"]+)"/m.exec(read('Cargo.toml'))?.[1],
  'Cargo.lock': /^name = "binding"\nversion = "([^"]+)"/m.exec(read('Cargo.lock'))?.[1],
  'deploy/kubernetes/deployment.yaml': /image: \S+\/maple-cpu:(\S+)/.exec(
    read('deploy/kubernetes/deployment.yaml'),
  )?.[1],
  ...own.optionalDependencies,
}
const wrong = Object.entries(found).filter(([, version]) => version !== expected)
for (const [where, version] of wrong) console.error(`${where}: version ${version}, expected ${expected}`)
if (wrong.length > 0) process.exit(1)
console.log(`${Object.keys(found).join(', ')}: version ${expected}`)
