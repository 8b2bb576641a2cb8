import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

const script = fileURLToPath(new URL('../../crates/binding/prepare.mjs', import.meta.url))

/** Runs what `npm ci` ends with, in a folder of stand-ins: each tool notes how it was called and ends with its code. */
function prepare(t: Test, { addon, tools }: { addon: boolean; tools: Record<string, number> }) {
  const root = t.testdir({ bin: {}, dist: { 'native.js': 'export const openAddon = (open) => open()\n' } })
  mkdirSync(join(root, 'crates', 'binding'), { recursive: true })
  copyFileSync(script, join(root, 'crates', 'binding', 'prepare.mjs'))
  if (addon) writeFileSync(join(root, 'index.js'), '')
  const calls = join(root, 'calls')
  writeFileSync(calls, '')
  for (const [name, code] of Object.entries(tools)) {
    const path = join(root, 'bin', name)
    writeFileSync(path, `#!/bin/sh\necho "${name} $*" >> "${calls}"\nexit ${code}\n`)
    chmodSync(path, 0o755)
  }
  symlinkSync(process.execPath, join(root, 'bin', 'node'))
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'crates', 'binding', 'prepare.mjs')], {
    cwd: root,
    encoding: 'utf8',
    env: { PATH: join(root, 'bin') },
  })
  return { status, stderr, calls: readFileSync(calls, 'utf8').trim().split('\n') }
}

const build = (name: string) => `npm run --silent build:${name}`

t.test('after npm ci', { skip: process.platform === 'win32' && 'the stand-ins are shell scripts' }, (t) => {
  const full = prepare(t, { addon: true, tools: { npm: 0, cargo: 0 } })
  t.match(full, { status: 0, stderr: '' })
  t.same(full.calls, ['cargo --version', build('native'), build('ts'), build('web')])

  const prebuilt = prepare(t, { addon: true, tools: { npm: 0 } })
  t.match(prebuilt, { status: 0, stderr: '' }, 'an addon that is there serves where there is no compiler')
  t.same(prebuilt.calls, [build('ts'), build('web')])

  const nothing = prepare(t, { addon: false, tools: { npm: 0 } })
  t.equal(nothing.status, 1)
  t.match(nothing.stderr, /native addon.*(\n.*)*rustup\.rs.*npm ci/, 'neither: what is missing and what to do')

  t.equal(prepare(t, { addon: true, tools: { npm: 3, cargo: 0 } }).status, 3, 'a build that fails is not papered over')
  t.end()
})
