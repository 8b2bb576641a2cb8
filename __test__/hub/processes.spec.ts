import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { resolveModel } from '../../src/hub/index.js'
import { buildSources } from '../build.js'
import { FakeHub, sha256, shardedRepo } from './fake-hub.js'

t.setTimeout(180_000)

const files = shardedRepo(3, 400_000)

const program = join(buildSources(t, ['__test__/hub/start-child.ts']), '__test__', 'hub', 'start-child.js')

async function setUp(t: Test) {
  const hub = await FakeHub.start()
  t.teardown(() => hub.stop())
  hub.addRepo('org/maple', { files })
  const home = t.testdir({})
  const cache = join(home, 'hub')
  const env = { HOME: home, HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: cache }
  const blobs = join(cache, 'models--org--maple', 'blobs')
  return { hub, env, blobs }
}

function start(env: Record<string, string>) {
  const child = spawn(process.execPath, [program, 'org/maple'], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  let errors = ''
  child.stdout.on('data', (data: Buffer) => (output += data.toString()))
  child.stderr.on('data', (data: Buffer) => (errors += data.toString()))
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, output: output.trim(), errors }))
  return { child, ended }
}

function checkWhole(t: Test, path: string, blobs: string): void {
  for (const name of readdirSync(path)) t.ok(readFileSync(join(path, name)).equals(files[name] as Buffer), name)
  for (const name of readdirSync(blobs)) {
    const content = readFileSync(join(blobs, name))
    if (name.length === 64) t.equal(sha256(content), name, 'a blob is what its name says')
    else t.match(name, /^[0-9a-f]{40}$/, 'nothing unfinished is left')
  }
}

t.test('killed at random points, the next start goes on where it ended', async (t) => {
  const { hub, env, blobs } = await setUp(t)
  hub.misbehave = (request) => (request.server === 'content' ? { slowMs: 10 } : undefined)
  let unfinished = 0
  let killed = 0
  while (killed < 20) {
    const { child, ended } = start(env)
    // Counted from the first bytes: how long a process takes to start does not matter.
    const before = hub.requests.length
    while (hub.requests.length === before && child.exitCode === null) await delay(2)
    await delay(Math.random() * 300)
    child.kill('SIGKILL')
    const { code, output } = await ended
    if (code !== null) {
      t.equal(code, 0)
      checkWhole(t, output, blobs)
      // All is there, so the next one begins anew.
      rmSync(env.HF_HUB_CACHE, { recursive: true })
      continue
    }
    killed++
    // Killed early, it has not made the folder yet.
    const names = existsSync(blobs) ? readdirSync(blobs) : []
    for (const name of names) {
      if (name.length === 64) t.equal(sha256(readFileSync(join(blobs, name))), name, 'whatever is published is whole')
    }
    if (names.some((name) => name.endsWith('.incomplete'))) unfinished++
  }
  t.ok(unfinished > 0, `${unfinished} were killed within a file`)
  const { code, output, errors } = await start(env).ended
  t.equal(code, 0, errors)
  checkWhole(t, output, blobs)
  const served = hub.requests.filter((request) => request.server === 'content')
  t.ok(
    served.some((request) => request.headers.range !== undefined),
    'what was there has not been fetched again',
  )
})

t.test('ten processes at once on an empty cache all get the files, and share the fetching', async (t) => {
  const { hub, env, blobs } = await setUp(t)
  hub.misbehave = (request) => (request.server === 'content' ? { slowMs: 4 } : undefined)
  const results = await Promise.all(Array.from({ length: 10 }, () => start(env).ended))
  for (const { code, errors } of results) t.equal(code, 0, errors)
  t.equal(new Set(results.map(({ output }) => output)).size, 1)
  checkWhole(t, results[0]?.output as string, blobs)
  t.equal(hub.count({ server: 'content' }), 4, 'each large file was sent once')
})

t.test('a process whose writer is killed takes over', async (t) => {
  const { hub, env, blobs } = await setUp(t)
  hub.misbehave = (request) => (request.server === 'content' ? { slowMs: 20 } : undefined)
  const writer = start(env)
  while (hub.count({ server: 'content' }) === 0) await delay(5)
  const waiter = start(env)
  await delay(100)
  hub.misbehave = () => undefined
  writer.child.kill('SIGKILL')
  await writer.ended
  const { code, output, errors } = await waiter.ended
  t.equal(code, 0, errors)
  checkWhole(t, output, blobs)
})

t.test('calls in one process share the fetching too', async (t) => {
  const { hub, env, blobs } = await setUp(t)
  const found = await Promise.all([1, 2, 3].map(() => resolveModel('org/maple', { env })))
  t.equal(new Set(found.map(({ path }) => path)).size, 1)
  checkWhole(t, found[0]?.path as string, blobs)
  t.equal(hub.count({ server: 'content' }), 4)
})

t.test('a file left on another machine long ago is taken over as a copy', async (t) => {
  const { hub, env, blobs } = await setUp(t)
  const whole = await resolveModel('org/maple', { env })
  const name = 'model-00001-of-00003.safetensors'
  const content = files[name] as Buffer
  rmSync(join(blobs, sha256(content)))
  const left = join(blobs, `${sha256(content)}.maple-0123456789ab-1-1-aa.incomplete`)
  writeFileSync(left, content.subarray(0, 1000))
  utimesSync(left, new Date(0), new Date(0))
  hub.requests.length = 0
  await resolveModel('org/maple', { env })
  t.match(
    hub.requests.filter((request) => request.server === 'content').map((request) => request.headers.range),
    ['bytes=1000-'],
  )
  checkWhole(t, whole.path, blobs)
})
