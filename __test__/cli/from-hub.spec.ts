import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { fixture } from '../helpers/fixtures.js'
import { FakeHub, sha256 } from '../hub/fake-hub.js'
import { type Program, start } from './program.js'

t.setTimeout(600_000)

/** A hub with a small model on it, and programs that use it. */
async function setUp(t: Test) {
  const hub = await FakeHub.start()
  t.teardown(() => hub.stop())
  const folder = fixture('tiny-hf-sharded')
  const names = readdirSync(folder).filter((name) => !name.startsWith('golden'))
  hub.addRepo('org/tiny', { files: Object.fromEntries(names.map((name) => [name, readFileSync(join(folder, name))])) })
  const home = t.testdir({})
  const [cache, packed] = [join(home, 'hf'), join(home, 'packed')]
  const env = { HF_ENDPOINT: hub.endpoint, HF_HOME: cache, MAPLE_CACHE: packed }
  const ask = (more: Record<string, string> = {}): Program => {
    const args = ['run', '--json', 'Hello', '--model-path', 'org/tiny', '--temperature', '0', '--max-new-tokens', '8']
    return start(args, { env: { ...env, ...more } })
  }
  /** Every published file is what its name says; with `complete`, nothing unfinished lies about. */
  const checkFiles = (t: Test, complete: boolean): void => {
    const blobs = join(cache, 'hub', 'models--org--tiny', 'blobs')
    for (const name of list(blobs)) {
      if (/^[0-9a-f]{64}$/.test(name)) t.equal(sha256(readFileSync(join(blobs, name))), name, 'a blob is whole')
      else if (complete) t.match(name, /^[0-9a-f]{40}$/, 'nothing unfinished is left')
    }
    const kept = list(packed).filter((name) => !name.endsWith('.lock'))
    if (complete) t.match(kept, [/^models--org--tiny-[0-9a-f-]+\.safetensors$/], 'one packed copy and no other file')
  }
  return { hub, env, ask, checkFiles }
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

async function answer(t: Test, program: Program): Promise<string> {
  t.equal(await program.ended, 0, program.stderr)
  const { content, reasoning_content: reasoning = '' } = JSON.parse(program.stdout) as {
    content: string
    reasoning_content?: string
  }
  t.not(content + reasoning, '')
  return `${reasoning}|${content}`
}

t.test('from a name to an answer: cold, killed at any point, warm and offline, always the same', async (t) => {
  const cold = await answer(t, (await setUp(t)).ask())
  const { hub, ask, checkFiles } = await setUp(t)
  hub.misbehave = (request) =>
    request.server === 'content' && request.earlier === 0 ? { cutAfter: 2000 } : { slowMs: 20 }
  let killed = 0
  for (let round = 0; round < 20; round++) {
    const before = hub.requests.length
    const program = ask()
    // Counted from the first request: how long a process takes to start does not matter.
    while (hub.requests.length === before && program.child.exitCode === null) await delay(2)
    await delay(Math.random() * 600)
    program.child.kill('SIGKILL')
    if ((await program.ended) === 'SIGKILL') killed++
    checkFiles(t, false)
  }
  t.ok(killed > 0, `${killed} were killed`)
  t.equal(await answer(t, ask()), cold)
  checkFiles(t, true)
  await hub.stop()
  t.equal(await answer(t, ask({ HF_HUB_OFFLINE: '1' })), cold)
  const down = ask()
  t.equal(await answer(t, down), cold)
  t.match(down.stderr, /warning: .*already in the cache/)
})

t.test('ten starts at once on an empty cache all answer', async (t) => {
  const { hub, ask, checkFiles } = await setUp(t)
  const answers = await Promise.all(Array.from({ length: 10 }, () => answer(t, ask({ MAPLE_THREADS: '1' }))))
  t.equal(new Set(answers).size, 1)
  checkFiles(t, true)
  t.equal(
    hub.count({ server: 'content' }),
    readdirSync(fixture('tiny-hf-sharded')).filter((name) => /^model-.*\.safetensors$|^tokenizer\.json$/.test(name))
      .length,
  )
})

interface Health {
  status: string
  phase?: string | null
  loaded_bytes?: number
  total_bytes?: number
}

t.test('a server tells of the download at /health, then answers', async (t) => {
  const { hub, env, checkFiles } = await setUp(t)
  let held = true
  // The last shard does not come before the download has been seen.
  hub.misbehave = (request) =>
    held && request.server === 'content' && request.file === 'model-00003-of-00003.safetensors'
      ? { stallAfter: 1000 }
      : undefined
  const args = ['serve', '--model-path', 'org/tiny', '--port', '0', '--host', '127.0.0.1']
  const program = start(args, { env: { ...env, HF_HUB_DOWNLOAD_TIMEOUT: '2' } })
  while (!/"url":"/.test(program.stderr) && program.child.exitCode === null) await delay(5)
  const url = /"url":"([^"]+)"/.exec(program.stderr)?.[1] ?? ''
  const health = async (): Promise<Health> => (await (await fetch(`${url}/health`)).json()) as Health
  let seen = await health()
  while (!(seen.status === 'loading' && (seen.loaded_bytes ?? 0) > 0)) {
    t.equal(seen.status, 'loading')
    await delay(5)
    seen = await health()
  }
  t.equal(seen.phase, 'download')
  t.ok((seen.total_bytes ?? 0) > (seen.loaded_bytes ?? 0), `${seen.loaded_bytes} of ${seen.total_bytes}`)
  held = false
  while (seen.status === 'loading') {
    await delay(5)
    seen = await health()
  }
  t.equal(seen.status, 'ok')
  const body = JSON.stringify({ prompt: 'Hello', max_tokens: 4, temperature: 0 })
  const response = await fetch(`${url}/v1/completions`, { method: 'POST', body })
  t.match(await response.json(), { object: 'text_completion', usage: { completion_tokens: 4 } })
  checkFiles(t, true)
  program.child.kill('SIGTERM')
  t.equal(await program.ended, 0)
})
