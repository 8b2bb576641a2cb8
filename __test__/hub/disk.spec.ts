import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { resolveModel } from '../../src/hub/index.js'
import { FakeHub, shardedRepo } from './fake-hub.js'

// Waits are the machine's: how busy it is must not decide.
t.setTimeout(180_000)

/** Mounts a small file system in memory, or says why not. */
function mount(t: Test, folder: string, options: string): boolean {
  mkdirSync(folder, { recursive: true })
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder], { stdio: 'pipe' })
  } catch {
    return false
  }
  t.teardown(() => execFileSync('umount', ['-l', folder]))
  return true
}

async function setUp(t: Test) {
  const hub = await FakeHub.start()
  t.teardown(() => hub.stop())
  hub.addRepo('org/maple', { files: shardedRepo(2, 1_500_000) })
  const home = t.testdir({})
  const disk = join(home, 'disk')
  return { hub, disk, env: { HOME: home, HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: join(disk, 'hub') } }
}

const skipped = 'SKIPPED: file systems can be mounted by root only'

t.test('a disk too small is found out before anything large is fetched', async (t) => {
  const { hub, disk, env } = await setUp(t)
  if (!mount(t, disk, 'size=2m')) return void t.comment(skipped)
  await t.rejects(resolveModel('org/maple', { env }), {
    code: 'DISK_FULL',
    message: /org\/maple needs 3\.0 MB more .*HF_HUB_CACHE/,
  })
  t.equal(hub.count({ server: 'content' }), 0)
})

t.test('a disk that fills up on the way; the next start goes on', async (t) => {
  const { hub, disk, env } = await setUp(t)
  if (!mount(t, disk, 'size=4m')) return void t.comment(skipped)
  // Somebody else takes the room once the check has passed.
  hub.misbehave = (request) => {
    if (request.server === 'content' && request.earlier === 0)
      writeFileSync(join(disk, `other${hub.requests.length}`), Buffer.alloc(600_000))
    return undefined
  }
  await t.rejects(resolveModel('org/maple', { env, retryPauseMs: 1 }), { code: 'DISK_FULL', message: /full.*resumed/ })
  const { rmSync } = await import('node:fs')
  for (const name of readdirSync(disk).filter((name) => name.startsWith('other'))) rmSync(join(disk, name))
  const { path } = await resolveModel('org/maple', { env })
  t.equal(readdirSync(path).length, 8)
})

t.test('a read-only cache serves what it has, and says what it cannot do', async (t) => {
  const { hub, disk, env } = await setUp(t)
  if (!mount(t, disk, 'size=8m')) return void t.comment(skipped)
  const { path } = await resolveModel('org/maple', { env })
  execFileSync('mount', ['-o', 'remount,ro', disk])
  t.equal((await resolveModel('org/maple', { env })).path, path)
  hub.addRepo('org/other', { files: shardedRepo(1, 1000) })
  await t.rejects(resolveModel('org/other', { env }), {
    code: 'CACHE_NOT_WRITABLE',
    message: /read-only.*HF_HUB_CACHE/,
  })
  hub.addRepo('org/maple', { files: shardedRepo(2, 1000, 'new'), commit: 'd'.repeat(40) })
  const old = await resolveModel('org/maple', { env })
  t.equal(old.path, path, 'the newer version cannot be stored: the older one is used')
  t.match(old.warnings, [/read-only/])
})

t.test('a file in the place of the cache folder', async (t) => {
  const { disk, env } = await setUp(t)
  writeFileSync(disk, '')
  await t.rejects(resolveModel('org/maple', { env }), { code: 'CACHE_NOT_WRITABLE', message: /place of a folder/ })
})
