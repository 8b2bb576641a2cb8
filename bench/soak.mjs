// Hours of what a server meets: random requests of every kind, clients that leave or read slowly, requests that are wrong, and
// the model loaded anew behind them, all on the loopback address with the small model. Prints a Markdown table; ends with an
// error if an answer was not what it must be, a place in the queue was lost, or memory went on growing.
//
//   node bench/soak.mjs [--minutes 60] [--parallel 12] [--reload-seconds 20] [--threads 1] [--seed 1]
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { TextDecoder, parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    parallel: { type: 'string', default: '12' },
    'reload-seconds': { type: 'string', default: '20' },
    threads: { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
    serve: { type: 'boolean', default: false },
  },
})
const MB = 1024 * 1024

if (values.serve) await serve()
else await soak()

/** The server's process: the package's app, over a model that can be exchanged while it answers. */
async function serve() {
  const { Maple, createServer } = await import('../dist/index.js')
  const load = async () => {
    const model = await Maple.load('sprout', { threads: Number(values.threads), prefixCacheBytes: 32 * MB })
    return { model, calls: 0, idle: () => {} }
  }
  let now = await load()
  // A model goes when the last call that began with it has ended.
  const use = () => {
    const held = now
    held.calls++
    return [held.model, () => --held.calls === 0 && held.idle()]
  }
  const following = (method) =>
    async function* (...args) {
      const [model, done] = use()
      try {
        yield* model[method](...args)
      } finally {
        done()
      }
    }
  const served = {
    get info() {
      return now.model.info
    },
    prepareChat: (...args) => now.model.prepareChat(...args),
    tokenizePrompt: (...args) => now.model.tokenizePrompt(...args),
    runChat: following('runChat'),
    runCompletion: following('runCompletion'),
  }
  const app = createServer(served, {
    maxQueueDepth: '64',
    sendTimeout: '20',
    maxBodyBytes: '1000000',
  })
  const server = createHttp(app).listen(0, '127.0.0.1')
  await once(server, 'listening')
  process.on('message', async (message) => {
    if (message === 'reload') {
      const old = now
      now = await load()
      if (old.calls > 0) await new Promise((resolve) => (old.idle = resolve))
      await old.model.dispose()
      process.send({ reloaded: true })
    }
    if (message === 'memory') {
      globalThis.gc()
      const { rss, heapUsed, external } = process.memoryUsage()
      const anonymous = /^RssAnon:\s+(\d+)/m.exec(readStatus())?.[1]
      process.send({ memory: { rss, heapUsed, external, anonymous: anonymous ? Number(anonymous) * 1024 : rss } })
    }
    if (message === 'end') {
      await now.model.dispose()
      process.exit(0)
    }
  })
  process.send({ port: server.address().port })
}

function readStatus() {
  try {
    return readFileSync('/proc/self/status', 'utf8')
  } catch {
    return ''
  }
}

/** The clients, and the judge. */
async function soak() {
  const minutes = Number(values.minutes)
  const work = mkdtempSync(join(tmpdir(), 'maple-soak-'))
  const child = fork(fileURLToPath(import.meta.url), [...process.argv.slice(2), '--serve'], {
    execArgv: ['--expose-gc'],
    env: { ...process.env, MAPLE_CACHE: join(work, 'packed') },
  })
  process.on('exit', () => {
    child.kill('SIGKILL')
    rmSync(work, { recursive: true, force: true })
  })
  process.on('SIGTERM', () => process.exit(1))
  child.once('exit', (code, signal) => {
    if (ending) return
    console.error(`the server's process ended: ${code ?? signal}`)
    process.exit(1)
  })
  let ending = false
  const told = async (key) => {
    for (;;) {
      const [message] = await once(child, 'message', { signal: AbortSignal.timeout(120_000) })
      if (key in message) return message[key]
    }
  }
  const asked = (message, key) => {
    const answer = told(key)
    child.send(message)
    return answer
  }
  const port = await told('port')
  const url = `http://127.0.0.1:${port}`
  const random = generator(Number(values.seed))
  const pick = (list) => list[Math.floor(random() * list.length)]
  const counts = new Map()
  const problems = []
  const stop = performance.now() + minutes * 60_000

  const post = (path, body, signal) =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      signal,
    })
  const text = () => pick(['What is 17 * 23?', 'Hello', 'Name three birds.', 'é😀 — ', 'x '.repeat(1 + random() * 300)])
  const settings = () => ({
    max_tokens: 1 + Math.floor(random() * 60),
    temperature: pick([0, 0.6, 1.5]),
    ...pick([{}, { top_p: 0.5 }, { stop: ['.', '3'] }, { seed: 7 }, { repetition_penalty: 1.2 }]),
  })
  const past = []
  const conversation = () => {
    // Some go on from a turn that was asked before, so that kept states are found.
    const before = random() < 0.5 && past.length > 0 ? pick(past) : []
    const messages = [...before, { role: 'user', content: text() }]
    if (messages.length < 8)
      past.splice(Math.floor(random() * 20), 1, [...messages, { role: 'assistant', content: '391' }])
    return { messages, ...settings() }
  }
  /** Reads an event stream; it ends with [DONE] or breaks off. */
  const readStream = async (response, pause = 0, leaveAfter = Infinity) => {
    let all = ''
    const decoder = new TextDecoder()
    for await (const bytes of response.body) {
      all += decoder.decode(bytes, { stream: true })
      if (all.length > leaveAfter) return
      if (pause > 0) await delay(pause)
    }
    if (/"error":\{/.test(all)) throw new Error(`error in the stream: ${all.slice(-300)}`)
    if (!all.endsWith('data: [DONE]\n\n')) throw new Error(`a stream ended without [DONE]: ${all.slice(-200)}`)
  }
  const expectStatus = async (response, allowed) => {
    if (allowed.includes(response.status)) return true
    throw new Error(`HTTP ${response.status}: ${(await response.text()).slice(0, 300)}`)
  }
  /** Waiting too long, or in too long a line, is an answer too. */
  const fine = async (response) => {
    await expectStatus(response, [200, 503])
    if (response.status === 200) return true
    const { error } = await response.json()
    if (error.code !== 'engine_overloaded') throw new Error(`503 with ${error.code}`)
    return false
  }
  const raw = (bytes, wait) =>
    new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.write(bytes)
        setTimeout(() => socket.destroy(), wait)
      })
      socket
        .on('error', () => {})
        .on('data', () => {})
        .once('close', resolve)
    })

  /** What a client may do, and how often. */
  const kinds = {
    'streams read to the end': [
      6,
      async () => {
        const response = await post('/v1/chat/completions', { ...conversation(), stream: true })
        if (await fine(response)) await readStream(response)
      },
    ],
    'answers in one piece': [
      4,
      async () => {
        const response = await post('/v1/chat/completions', conversation())
        if (!(await fine(response))) return
        const { choices, usage } = await response.json()
        if (!['stop', 'length'].includes(choices[0].finish_reason) || !(usage.total_tokens > 0))
          throw new Error('an answer without its end')
      },
    ],
    'raw completions': [
      2,
      async () => {
        const response = await post('/v1/completions', { prompt: text(), stream: random() < 0.5, ...settings() })
        if (await fine(response)) await response.text()
      },
    ],
    'clients that left in the middle of a stream': [
      4,
      async () => {
        const leaving = new AbortController()
        const response = await post('/v1/chat/completions', { ...conversation(), stream: true }, leaving.signal)
        if (await fine(response)) await readStream(response, 0, random() * 2000)
        leaving.abort()
      },
    ],
    'clients that left while they waited': [
      3,
      async () => {
        const signal = AbortSignal.timeout(Math.ceil(random() * 200))
        await post('/v1/chat/completions', { ...conversation(), max_tokens: 500 }, signal)
          .then(
            (response) => response.text(),
            () => {},
          )
          .catch(() => {})
      },
    ],
    'clients that left in the middle of a request': [
      2,
      () => {
        const head = 'POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n'
        return raw(`${head}Content-Length: 500\r\n\r\n{"messages": [{"role"`, random() * 100)
      },
    ],
    'slow readers': [
      1,
      async () => {
        const response = await post('/v1/chat/completions', { ...conversation(), stream: true })
        if (await fine(response)) await readStream(response, 20)
      },
    ],
    'requests refused with 4xx': [
      4,
      async () => {
        const [path, body] = pick([
          ['/v1/chat/completions', '{"messages": ['],
          ['/v1/chat/completions', { messages: [] }],
          ['/v1/chat/completions', { messages: [{ role: 'nobody', content: 'x' }] }],
          ['/v1/chat/completions', { messages: [{ role: 'user', content: 5 }], temperature: 'warm' }],
          ['/v1/chat/completions', { messages: [{ role: 'user', content: 'x '.repeat(400_000) }] }],
          ['/v1/completions', { prompt: 'x', max_tokens: -1 }],
          ['/v1/completions', { prompt: [1e9] }],
          ['/v1/completions', { prompt: 'a '.repeat(100_000) }],
          ['/v1/nowhere', {}],
        ])
        const response = await post(path, body)
        await expectStatus(response, [400, 404, 413])
        if (typeof (await response.json()).error.message !== 'string') throw new Error('an error without a message')
      },
    ],
    'what is not HTTP': [
      1,
      () => raw(pick(['GET\r\n\r\n', '\0\x01\x02', 'GET / HTTP/1.1\r\n', 'x'.repeat(20_000)]), random() * 50),
    ],
    'looks at /health, /metrics, /v1/models': [
      2,
      async () => {
        const response = await fetch(url + pick(['/health', '/metrics', '/v1/models']))
        await expectStatus(response, [200])
        await response.text()
      },
    ],
  }
  const dice = Object.entries(kinds).flatMap(([name, [weight]]) => new Array(weight).fill(name))
  const client = async () => {
    while (performance.now() < stop && problems.length < 20) {
      const name = pick(dice)
      try {
        await kinds[name][1]()
        counts.set(name, (counts.get(name) ?? 0) + 1)
      } catch (error) {
        problems.push(`${name}: ${error.cause?.message ?? error.message}`)
      }
      await delay(random() * 50)
    }
  }
  let reloads = 0
  const reloader = async () => {
    for (;;) {
      await delay(Math.min(Number(values['reload-seconds']) * 1000, Math.max(stop - performance.now(), 0)))
      if (performance.now() >= stop || problems.length >= 20) return
      await asked('reload', 'reloaded')
      reloads++
    }
  }
  const samples = []
  const observer = async () => {
    // Sixty looks, at least every ten seconds in a short run.
    const every = Math.max(minutes * 1000, 2000)
    while (performance.now() < stop && problems.length < 20) {
      await delay(every)
      samples.push(await asked('memory', 'memory'))
    }
  }
  const begin = performance.now()
  await Promise.all([...Array.from({ length: Number(values.parallel) }, client), reloader(), observer()])

  // All clients are gone: within seconds nothing may be at work or in line, and the next one is answered at once.
  let health
  for (let i = 0; i < 100; i++) {
    health = await (await fetch(`${url}/health`)).json()
    if (health.active === 0 && health.queue_depth === 0) break
    await delay(100)
  }
  if (health.active !== 0 || health.queue_depth !== 0) {
    problems.push(`a place was lost: ${health.active} at work, ${health.queue_depth} in line with no client left`)
  }
  const last = await post('/v1/chat/completions', { messages: [{ role: 'user', content: 'What is 17 * 23?' }] })
  if (last.status !== 200) problems.push(`the last request got ${last.status}`)
  else await last.text()

  // The first quarter fills pools and caches; from there on memory may waver, but not grow.
  const quarter = (n, key) =>
    median(samples.slice((n * samples.length) / 4, ((n + 1) * samples.length) / 4).map((s) => s[key]))
  const rows = [
    ['Minutes', ((performance.now() - begin) / 60_000).toFixed(0)],
    ...[...counts].sort((a, b) => b[1] - a[1]).map(([name, count]) => [name[0].toUpperCase() + name.slice(1), count]),
    ['Reloads', reloads],
    ['Answers that were not what they must be', problems.length],
    ['At work, in line afterwards', `${health.active}, ${health.queue_depth}`],
  ]
  for (const [key, name, spare] of [
    ['anonymous', 'Memory without mapped files', 12],
    ['heapUsed', 'JavaScript heap', 6],
  ]) {
    const [second, fourth] = [quarter(1, key), quarter(3, key)]
    rows.push([`${name}, second and last quarter`, `${(second / MB).toFixed(1)}, ${(fourth / MB).toFixed(1)} MB`])
    // Half a minute is too short to tell.
    if (minutes >= 5 && fourth > second * 1.05 + spare * MB) {
      problems.push(`${name} grew from ${(second / MB).toFixed(1)} to ${(fourth / MB).toFixed(1)} MB`)
    }
  }
  console.log(['| | |', '|---|---|', ...rows.map((row) => `| ${row.join(' | ')} |`)].join('\n'))
  for (const problem of problems) console.error(problem)
  ending = true
  child.send('end')
  const [code, signal] = await once(child, 'exit', { signal: AbortSignal.timeout(30_000) })
  if (code !== 0) problems.push(`the server's process ended with ${code ?? signal}`)
  process.exit(problems.length === 0 ? 0 : 1)
}

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}

/** Numbers from 0 up to 1, the same for the same seed. */
function generator(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let z = Math.imul(state ^ (state >>> 15), state | 1)
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61)
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32
  }
}
