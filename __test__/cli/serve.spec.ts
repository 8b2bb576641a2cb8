import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { buildSources } from '../build.js'
import { until } from '../helpers/http.js'

const main = join(buildSources(t), 'src', 'cli', 'main.js')
const fixture = fileURLToPath(new URL('../fixtures/tiny-hf-sharded', import.meta.url))

/** Runs `maple-cpu serve`. */
function start(t: Test, args: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [main, 'serve', ...args], {
    env: { ...process.env, MAPLE_CACHE: t.testdir({}), ...env },
  })
  t.teardown(() => child.kill('SIGKILL'))
  let output = ''
  child.stderr.on('data', (data: Buffer) => (output += data.toString()))
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string)
  const url = async (): Promise<string> => {
    await until(() => /"url":"[^"]+"/.test(output) || child.exitCode !== null)
    return /"url":"([^"]+)"/.exec(output)?.[1] ?? Promise.reject(new Error(output))
  }
  return { child, ended, url, output: () => output }
}

t.test('serves, answers, and ends by SIGTERM with 0', async (t) => {
  const program = start(t, ['--model-path', fixture, '--port', '0', '--host', '127.0.0.1', '--strict-model'], {
    MAPLE_MODEL_ID: 'tiny',
    MAPLE_DTYPE: 'bfloat16',
  })
  const url = await program.url()
  await until(() => program.output().includes('the model is loaded'))
  t.match(await (await fetch(`${url}/health`)).json(), { status: 'ok', model: 'tiny', model_path: fixture })
  const post = (body: object) =>
    fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ messages: [{ role: 'user', content: 'secret words' }], ...body }),
    })
  t.match(await (await post({ max_tokens: 3 })).json(), { model: 'tiny', object: 'chat.completion' })
  t.equal((await post({ model: 'other' })).status, 404)
  program.child.kill('SIGTERM')
  t.equal(await program.ended, 0)
  t.match(program.output(), /MAPLE_DTYPE=bfloat16/)
  t.notMatch(program.output(), /secret words/)
  for (const line of program
    .output()
    .trim()
    .split('\n')
    .filter((line) => line.startsWith('{')))
    t.ok(JSON.parse(line))
})

t.test('SIGTERM lets a running answer finish', async (t) => {
  const args = ['--model-path', fixture, '--port', '0', '--host', '127.0.0.1', '--max-new-tokens', '300']
  const body = JSON.stringify({ prompt: 'x', stream: true, seed: 1, temperature: 2, top_k: 0, top_p: 1 })
  const stream = async (url: string) => {
    const res = await fetch(`${url}/v1/completions`, { method: 'POST', body })
    const reader = (res.body ?? (t.fail() as never)).getReader()
    // On a quick machine the first read may hold much of the answer, or all of it.
    let text = Buffer.from((await reader.read()).value ?? []).toString()
    return async () => {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return text
        text += Buffer.from(value).toString()
      }
    }
  }
  const program = start(t, args)
  const url = await program.url()
  await until(() => program.output().includes('the model is loaded'))
  const rest = await stream(url)
  program.child.kill('SIGTERM')
  t.match(await rest(), /data: \[DONE\]\n\n$/)
  t.equal(await program.ended, 0)
})

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  t.test(`a second ${signal} ends it while answers are still on their way`, async (t) => {
    const program = start(t, ['--model-path', fixture, '--port', '0', '--host', '127.0.0.1'], {
      MAPLE_SHUTDOWN_GRACE: '100000',
      MAPLE_MAX_QUEUE_DEPTH: '60',
      // A stream that has been sent a comment keeps its place when the server stops.
      MAPLE_KEEP_ALIVE_INTERVAL: '0.01',
    })
    const url = await program.url()
    await until(() => program.output().includes('the model is loaded'))
    const body = JSON.stringify({ prompt: 'a', stream: true, temperature: 0, max_tokens: 4000 })
    const answers = await Promise.all(
      Array.from({ length: 60 }, () => fetch(`${url}/v1/completions`, { method: 'POST', body })),
    )
    const last = answers
      .at(-1)
      ?.text()
      .catch(() => 'cut off')
    program.child.kill(signal)
    await until(() => program.output().includes('stopping'))
    const late = fetch(`${url}/v1/models`)
    t.equal((await late).status, 503, 'it takes no new requests, and still runs')
    program.child.kill(signal)
    t.equal(await program.ended, 130, '0 would mean that it waited for its answers')
    t.equal(await last, 'cut off')
  })
}

t.test('SIGTERM to npm start ends the server behind it', { skip: process.platform === 'win32' }, async (t) => {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const env = { ...process.env, MAPLE_PORT: '0', MAPLE_HOST: '127.0.0.1', MAPLE_CACHE: t.testdir({}) }
  // In a group of its own, so that nothing outlives a failure.
  const npm = spawn('npm', ['start'], { cwd: root, env, detached: true, stdio: ['ignore', 'ignore', 'pipe'] })
  // The server holds the pipe, so it closes when that is gone.
  const ended = once(npm, 'close')
  t.teardown(() => {
    try {
      process.kill(-(npm.pid ?? NaN), 'SIGKILL')
    } catch {
      // They are gone.
    }
  })
  let output = ''
  npm.stderr.on('data', (data: Buffer) => (output += data.toString()))
  await until(() => output.includes('the model is loaded'))
  npm.kill('SIGTERM')
  await ended
  t.match(output, /"stopped"/)
})

t.test('weights are mapped unless told otherwise', { skip: process.platform !== 'linux' }, async (t) => {
  for (const [flags, mapped] of [
    [[], true],
    [['--mmap', 'false'], false],
  ] as [string[], boolean][]) {
    const program = start(t, ['--model-path', fixture, '--port', '0', '--host', '127.0.0.1', ...flags])
    await program.url()
    await until(() => program.output().includes('the model is loaded'))
    t.equal(readFileSync(`/proc/${program.child.pid}/maps`, 'utf8').includes('.safetensors'), mapped)
    program.child.kill('SIGTERM')
    t.equal(await program.ended, 0)
  }
})

t.test('a load that fails is told at /health, and the server stays', async (t) => {
  const program = start(t, ['--model-path', '/nonexistent/model', '--port', '0', '--host', '127.0.0.1'])
  const url = await program.url()
  await until(() => program.output().includes('could not be loaded'))
  const health = await fetch(`${url}/health`)
  t.equal(health.status, 503)
  t.match(await health.json(), { status: 'error', message: /nonexistent/ })
  program.child.kill('SIGINT')
  t.equal(await program.ended, 0)
})

t.test('settings and ports that cannot be had end it with one line', async (t) => {
  const bad = start(t, ['--model-path', fixture], { MAPLE_DEVICE: 'cuda' })
  t.equal(await bad.ended, 2)
  t.match(bad.output(), /^maple-cpu: MAPLE_DEVICE: cannot read "cuda"; allowed: auto, cpu.*\n$/)
  const unknown = start(t, ['--no-such-flag'])
  t.equal(await unknown.ended, 2)
  const holder = createServer().listen(0, '127.0.0.1')
  await once(holder, 'listening')
  t.teardown(() => holder.close())
  const { port } = holder.address() as AddressInfo
  const taken = start(t, ['--model-path', fixture, '--host', '127.0.0.1', '--port', String(port)])
  t.equal(await taken.ended, 2)
  t.match(taken.output(), new RegExp(`Port ${port} is in use`))
})
