// Runs at the end of `npm ci` in a clone: leaves a native addon and the compiled TypeScript. With cargo the addon is built
// (which is quick when nothing changed); without it, one that is already there and fits is used.
import { spawnSync } from 'node:child_process'

const options = { stdio: 'inherit', shell: process.platform === 'win32' }

function run(script) {
  const { status } = spawnSync('npm', ['run', '--silent', script], options)
  if (status !== 0) process.exit(status ?? 1)
}

function hasCargo() {
  return spawnSync('cargo', ['--version'], { ...options, stdio: 'ignore' }).status === 0
}

async function hasAddon() {
  try {
    const { openAddon } = await import('../../dist/native.js')
    await openAddon(() => import('../../index.js'))
    return true
  } catch {
    return false
  }
}

if (hasCargo()) run('build:native')
run('build:ts')
run('build:web')
if (!(await hasAddon())) {
  console.error(`
maple-cpu needs its native addon, and there is none for this platform (${process.platform}-${process.arch}, Node ${process.version}).
Building it takes Rust 1.90 or newer: install it from https://rustup.rs, then run \`npm ci\` again.
`)
  process.exit(1)
}
