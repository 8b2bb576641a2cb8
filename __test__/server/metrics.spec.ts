import { readFile, readdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { FakeModel } from '../helpers/fake-model.js'
import { hello, serve, until, type TestServer } from '../helpers/http.js'

// It has no types of its own.
const parse = createRequire(import.meta.url)('parse-prometheus-text-format') as (text: string) => any[]

const chat = '/v1/chat/completions'

/** All families of `/metrics`, by name. */
async function read({ url }: TestServer): Promise<Map<string, { type: string; help: string; metrics: any[] }>> {
  const res = await fetch(`${url}/metrics`)
  if (res.status !== 200) throw new Error(`${res.status} ${await res.text()}`)
  return new Map(parse(await res.text()).map((family) => [family.name, family]))
}

/** One sample's value; labels must match exactly. */
async function value(server: TestServer, name: string, labels: Record<string, string> = {}): Promise<number> {
  const family = (await read(server)).get(name)
  const same = (other: object = {}) =>
    JSON.stringify(Object.entries(other).sort()) === JSON.stringify(Object.entries(labels).sort())
  const sample = family?.metrics.find((metric) => same(metric.labels))
  return Number(sample?.count ?? sample?.value ?? 0)
}

const waits: FakeModel['script'] = () => [
  { type: 'content', text: 'a' },
  { type: 'wait', ms: 100_000 },
]

t.test('a parser reads it, and each number is what happened', async (t) => {
  const model = new FakeModel({ loadSeconds: 2.5, weightBytes: 1234 })
  model.script = () => [
    { type: 'content', text: 'Well' },
    { type: 'wait', ms: 2 },
    { type: 'content', text: 'Yes' },
    { type: 'content', text: '.' },
    {
      type: 'finish',
      reason: 'stop',
      usage: { promptTokens: 11, completionTokens: 3, cachedTokens: 4, reasoningTokens: 0 },
    },
  ]
  const server = await serve(t, model)
  const res = await fetch(`${server.url}/metrics`)
  t.match(res.headers.get('content-type'), /^text\/plain; version=0\.0\.4/)
  await res.text()
  for (const stream of [false, true]) await (await server.post(chat, { ...hello, stream })).text()
  await (await server.post(chat, { messages: [] })).text()
  await (await server.post('/v1/completions', { prompt: 'Hi' })).text()

  const families = await read(server)
  for (const [name, { type, help }] of families) {
    t.match(name, /^maple_[a-z_]+$/)
    t.ok(['COUNTER', 'GAUGE', 'HISTOGRAM'].includes(type) && help.length > 5, name)
    t.equal(type === 'COUNTER', name.endsWith('_total'), name)
  }
  t.equal(await value(server, 'maple_requests_total', { route: chat, status: '200' }), 2)
  t.equal(await value(server, 'maple_requests_total', { route: chat, status: '400' }), 1)
  t.equal(await value(server, 'maple_requests_total', { route: '/v1/completions', status: '200' }), 1)
  // The parser leaves out the labels of histograms.
  const text = await (await fetch(`${server.url}/metrics`)).text()
  t.ok(text.includes(`maple_request_duration_seconds_count{route="${chat}"} 3\n`))
  // Two chats with 11 tokens before, and a raw prompt of two characters.
  t.equal(await value(server, 'maple_prompt_tokens_total'), 11 + 11 + 2)
  t.equal(await value(server, 'maple_generated_tokens_total'), 9)
  t.equal(await value(server, 'maple_prefix_reused_tokens_total'), 12)
  for (const name of ['queue_wait_seconds', 'time_to_first_token_seconds', 'time_per_token_seconds']) {
    t.equal(await value(server, `maple_${name}`), 3, name)
  }
  t.equal(await value(server, 'maple_decode_tokens_per_second'), 3)
  t.equal(await value(server, 'maple_load_seconds'), 2.5)
  t.equal(await value(server, 'maple_weight_bytes'), 1234)
  t.equal(await value(server, 'maple_model_loaded'), 1)
  t.ok((await value(server, 'maple_resident_memory_bytes')) > 1e7)
  t.ok((await value(server, 'maple_cpu_seconds_total')) > 0)
  const [build] = families.get('maple_build_info')?.metrics ?? []
  t.match(build, { value: '1', labels: { model: 'maple-preview', dtype: 'float32', isa: 'scalar', format: 'hf' } })
})

t.test('queue and slot are seen as they are, aborts by what they cut', async (t) => {
  const model = new FakeModel()
  model.script = waits
  const server = await serve(t, model)
  const leave = new AbortController()
  const ask = (signal: AbortSignal, stream: boolean) =>
    server
      .post(chat, { ...hello, stream }, { signal })
      .then((res) => res.text())
      .catch(() => '')
  const running = ask(leave.signal, true)
  await until(() => model.running === 1)
  const waiting = [ask(leave.signal, false), ask(leave.signal, true)]
  await until(() => server.state.queue.depth === 2)
  t.equal(await value(server, 'maple_active_requests'), 1)
  t.equal(await value(server, 'maple_queue_depth'), 2)
  leave.abort()
  await Promise.all([running, ...waiting])
  await until(() => server.state.queue.active + server.state.queue.depth === 0)
  t.equal(await value(server, 'maple_requests_total', { route: chat, status: '499' }), 3)
  t.equal(await value(server, 'maple_aborts_total', { phase: 'decode' }), 1)
  t.equal(await value(server, 'maple_aborts_total', { phase: 'queue' }), 2)
  t.equal(await value(server, 'maple_generated_tokens_total'), 1)

  model.script = () => [{ type: 'wait', ms: 100_000 }]
  const early = new AbortController()
  const prefill = ask(early.signal, true)
  await until(() => model.running === 1)
  early.abort()
  await prefill
  await until(() => server.state.queue.active === 0)
  t.equal(await value(server, 'maple_aborts_total', { phase: 'prefill' }), 1)
})

t.test('clients cannot add series: routes come from the table', async (t) => {
  const server = await serve(t)
  const paths = [
    '/no/such',
    '/v1/models/a',
    '/v1/models/b/c',
    '/health/',
    '/v1//models',
    '/%',
    '/__proto__',
    '/constructor',
  ]
  for (const path of paths) await (await fetch(server.url + path)).text()
  await (await fetch(`${server.url}${chat}`, { method: 'DELETE' })).text()
  const routes = (await read(server)).get('maple_requests_total')?.metrics.map(({ labels }) => labels.route) as string[]
  t.same([...new Set(routes)].sort(), ['/health', chat, '/v1/models/{id}', 'other'].sort())
  t.equal(await value(server, 'maple_requests_total', { route: '/v1/models/{id}', status: '200' }), 2)
  t.equal(await value(server, 'maple_requests_total', { route: chat, status: '405' }), 1)
})

t.test('asks for the key, answers while loading, after a failed load and while stopping', async (t) => {
  const locked = await serve(t, undefined, { apiKey: 'secret' })
  t.equal((await fetch(`${locked.url}/metrics`)).status, 401)
  t.equal((await fetch(`${locked.url}/metrics`, { headers: { authorization: 'Bearer secret' } })).status, 200)
  t.equal((await fetch(`${locked.url}/metrics`, { method: 'POST' })).status, 401)

  const loading = await serve(t, new Promise(() => {}))
  t.equal(await value(loading, 'maple_model_loaded'), 0)
  t.equal(await value(loading, 'maple_load_seconds'), 0)
  const failed = await serve(t, Promise.reject(new Error('no')))
  t.equal(await value(failed, 'maple_model_loaded'), 0)
  const stopping = await serve(t)
  void stopping.state.drain()
  t.equal(await value(stopping, 'maple_model_loaded'), 1)
  t.equal((await fetch(`${stopping.url}/metrics`, { method: 'POST' })).status, 405)
})

t.test('every metric that deploy/ names exists, and the dashboard shows every metric', async (t) => {
  const server = await serve(t, new FakeModel())
  const families = await read(server)
  const folder = fileURLToPath(new URL('../../deploy', import.meta.url))
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const named = new Map<string, string>()
  for (const file of files.filter((entry) => entry.isFile())) {
    const path = `${file.parentPath}/${file.name}`
    for (const [name] of (await readFile(path, 'utf8')).matchAll(/\bmaple_[a-z_]+/g)) named.set(name, file.name)
  }
  for (const [name, file] of named) {
    const family = families.get(name) ?? families.get(name.replace(/_(bucket|sum|count)$/, ''))
    t.ok(family, `${name} in ${file}`)
    if (!families.has(name)) t.equal(family?.type, 'HISTOGRAM', name)
  }
  const dashboard = await readFile(`${folder}/grafana/maple-cpu.json`, 'utf8')
  t.equal(JSON.parse(dashboard).panels.filter((panel: any) => panel.type !== 'row' && !panel.targets?.length).length, 0)
  for (const name of families.keys()) t.ok(dashboard.includes(name), `${name} is on the dashboard`)
})
