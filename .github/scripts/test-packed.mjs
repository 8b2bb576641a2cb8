// Packs the main package and this platform's, installs both in an empty folder with no compiler in sight, and asks the small
// model something. Also without the platform package, and with one of another version: both must say what to do.
//
//   node .github/scripts/test-packed.mjs [NODE...]      each NODE is a node binary; default: this one
import { execFileSync, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const work = mkdtempSync(join(tmpdir(), 'maple-packed-'))
process.on('exit', () => rmSync(work, { recursive: true, force: true }))
const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
const run = (command, args, options = {}) =>
  execFileSync(command, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    shell: process.platform === 'win32',
    ...options,
  })
const fail = (message) => {
  console.error(`FAILED: ${message}`)
  process.exit(1)
}
const version = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version

/** A copy of what is packed, with the platform packages named. */
function stage() {
  const stageFolder = join(work, 'stage')
  mkdirSync(stageFolder)
  for (const name of ['package.json', 'README.md', 'LICENSE', 'index.js', 'index.d.ts', 'dist', 'models']) {
    cpSync(join(root, name), join(stageFolder, name), { recursive: true })
  }
  run(npm, ['exec', '--', 'napi', 'create-npm-dirs', '--cwd', stageFolder], { cwd: root })
  const addons = readdirSync(root).filter((name) => name.endsWith('.node'))
  if (addons.length !== 1) fail(`expected one addon in ${root}, found ${addons.join(', ') || 'none'}`)
  const abi = addons[0].split('.').at(-2)
  const platform = join(stageFolder, 'npm', abi)
  cpSync(join(root, addons[0]), join(platform, addons[0]))
  run(process.execPath, [join(root, '.github/scripts/platform-packages.mjs'), stageFolder])
  return { stageFolder, platform, abi }
}

function pack(folder) {
  const [{ filename, size, files }] = JSON.parse(
    run(npm, ['pack', '--json', '--ignore-scripts', '--pack-destination', work], { cwd: folder }),
  )
  console.log(`${filename}: ${(size / 1e6).toFixed(2)} MB, ${files.length} files`)
  return { path: join(work, filename), size, files: files.map((file) => file.path) }
}

/** A PATH with Node, npm and the shell's own tools, and no compiler of any language. */
function barePath(node) {
  const bin = mkdtempSync(join(work, 'bin-'))
  const npmCli = join(dirname(process.execPath), npm)
  symlinkSync(node, join(bin, 'node'))
  for (const tool of ['sh', 'env', 'ls', 'cat', 'sed', 'dirname', 'uname', 'basename']) {
    const found = ['/bin', '/usr/bin'].map((dir) => join(dir, tool)).find(existsSync)
    if (found) symlinkSync(found, join(bin, tool))
  }
  for (const tool of ['npm', 'npx']) {
    const found = [dirname(process.execPath), '/usr/bin', '/usr/local/bin']
      .map((dir) => join(dir, tool))
      .find(existsSync)
    if (found) symlinkSync(found, join(bin, tool))
  }
  return { bin, npmCli }
}

function empty(name, node) {
  const folder = join(work, name)
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), '{"private": true}\n')
  const { bin } = barePath(node)
  const env = {
    ...process.env,
    PATH: process.platform === 'win32' ? `${dirname(node)}${delimiter}${process.env.PATH}` : bin,
  }
  return { folder, env }
}

const ask = ({ folder, env }) =>
  spawnSync(process.platform === 'win32' ? 'npx.cmd' : 'npx', ['maple-cpu', 'run', 'Say hello in French.'], {
    ...{ cwd: folder, env, encoding: 'utf8', shell: process.platform === 'win32', timeout: 60_000 },
  })

const { stageFolder, platform, abi } = stage()
const main = pack(stageFolder)
const own = pack(platform)
if (main.size > 12e6) fail('the main package is larger than 12 MB')
for (const name of [
  'dist/cli/main.js',
  'dist/web/index.html',
  'index.js',
  'models/sprout/model.safetensors',
  'LICENSE',
]) {
  if (!main.files.includes(name)) fail(`the main package lacks ${name}`)
}
const stray = main.files.filter((name) => /training|\.map$|\.node$|(?<!\.d)\.ts$|\.tsbuildinfo$/.test(name))
if (stray.length > 0) fail(`the main package has what nobody needs: ${stray.join(', ')}`)
if (own.size > 6e6) fail("the platform's package is larger than 6 MB")

const nodes = process.argv.length > 2 ? process.argv.slice(2) : [process.execPath]
for (const [i, node] of nodes.entries()) {
  const place = empty(`node-${i}`, node)
  run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts=false', main.path, own.path], {
    cwd: place.folder,
    env: place.env,
  })
  const { status, stdout, stderr } = ask(place)
  const name = run(node, ['--version']).trim()
  if (status !== 0 || stdout.trim() === '') fail(`Node ${name}: exit ${status}\n${stdout}\n${stderr}`)
  console.log(`Node ${name}, ${abi}: ${stdout.trim().split('\n').at(-1)}`)
}

// Without the platform's package.
const bare = empty('bare', nodes[0])
run('npm', ['install', '--no-audit', '--no-fund', '--omit=optional', main.path], { cwd: bare.folder, env: bare.env })
const missing = ask(bare)
const library = process.platform === 'linux' ? [abi.endsWith('musl') ? 'musl' : 'glibc'] : []
for (const word of [`maple-cpu-${abi}`, process.platform, process.arch, ...library, 'npm install', 'Rust']) {
  if (!missing.stderr.includes(word))
    fail(`without the platform package, the message lacks ${word}:\n${missing.stderr}`)
}
if (missing.status === 0) fail('without the platform package, the exit code is 0')
console.log(`without the platform package: ${missing.stderr.trim()}`)

// With one of another version: the addon itself knows its version, so the package must claim a newer one.
const other = empty('other', nodes[0])
const staged = JSON.parse(readFileSync(join(stageFolder, 'package.json'), 'utf8'))
writeFileSync(
  join(stageFolder, 'package.json'),
  JSON.stringify({ ...staged, version: '99.0.0', optionalDependencies: {} }),
)
const newer = pack(stageFolder)
run('npm', ['install', '--no-audit', '--no-fund', newer.path, own.path], { cwd: other.folder, env: other.env })
const mismatch = ask(other)
for (const word of ['99.0.0', version]) {
  if (!mismatch.stderr.includes(word)) fail(`with another version, the message lacks ${word}:\n${mismatch.stderr}`)
}
console.log(`with another version: ${mismatch.stderr.trim()}`)
console.log('The packed packages work.')
