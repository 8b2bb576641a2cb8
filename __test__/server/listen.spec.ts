import express from 'express'
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { createConfig } from '../../src/config.js'
import { createApp, createServer } from '../../src/server/app.js'
import { listen } from '../../src/server/listen.js'
import { FakeModel } from '../helpers/fake-model.js'
import { hello, parseEvents, until } from '../helpers/http.js'

const chat = '/v1/chat/completions'

async function start(
  model: FakeModel,
  values: { shutdownGrace?: number; port?: number; keepAliveInterval?: number } = {},
) {
  const app = createApp(model, createConfig({ values: { host: '127.0.0.1', port: 0, ...values } }))
  const running = await listen(app)
  const post = (body: object) => fetch(running.url + chat, { method: 'POST', body: JSON.stringify(body) })
  return { ...app, running, post }
}

t.test('draining: the running answer finishes, the waiting and the new are turned away', async (t) => {
  const model = new FakeModel()
  let release = false
  model.script = function* () {
    yield { type: 'content', text: 'a' }
    while (!release) yield { type: 'wait', ms: 1 }
    yield { type: 'content', text: 'b' }
  }
  const { state, running, post } = await start(model)
  const first = await post({ ...hello, stream: true })
  const waiting = post(hello)
  await until(() => state.queue.depth === 1)
  const closing = running.close()
  const late = await post(hello)
  for (const res of [await waiting, late]) {
    t.equal(res.status, 503)
    t.ok(res.headers.get('retry-after'))
    t.match(await res.json(), { error: { type: 'server_error', code: 'shutting_down' } })
  }
  const health = await fetch(`${running.url}/health`)
  t.equal(health.status, 503)
  t.match(await health.json(), { status: 'shutting_down', active: 1, queue_depth: 0 })
  release = true
  const { events, done } = parseEvents(await first.text())
  t.ok(done)
  t.equal(events.map((event) => event.choices[0].delta.content ?? '').join(''), 'ab')
  t.equal(await closing, true)
  await t.rejects(post(hello))
})

t.test('draining: a waiting stream that has been sent a byte is still answered', async (t) => {
  const model = new FakeModel()
  let release = false
  model.script = function* () {
    while (!release) yield { type: 'wait', ms: 1 }
    yield { type: 'content', text: 'b' }
  }
  const { state, running, post } = await start(model, { keepAliveInterval: 0.02 })
  const first = post({ ...hello, stream: true })
  await until(() => state.queue.active === 1)
  const second = post({ ...hello, stream: true })
  const unsent = post(hello)
  await until(() => state.queue.depth === 2)
  // The headers are here with the first comment.
  const waiting = await second
  const closing = running.close()
  t.equal((await unsent).status, 503)
  t.equal(state.queue.depth, 1)
  release = true
  for (const res of [await first, waiting]) {
    const { events, done } = parseEvents(await res.text())
    t.ok(done)
    t.equal(events.map((event) => event.choices[0].delta.content ?? '').join(''), 'b')
  }
  t.equal(await closing, true)
})

t.test('an answer that outlives the grace time is cut off', async (t) => {
  const model = new FakeModel()
  model.script = () => [{ type: 'wait', ms: 3_600_000 }]
  const { state, running, post } = await start(model, { shutdownGrace: 0.05 })
  const cut = post(hello)
  await until(() => state.queue.active === 1)
  const [closed] = await Promise.all([running.close(), t.rejects(cut)])
  t.equal(closed, false)
  await until(() => model.running === 0)
})

t.test('an idle server closes at once, open connections or not', async (t) => {
  const { running, post } = await start(new FakeModel())
  await (await post(hello)).text()
  t.equal(await running.close(), true)
})

t.test('a port in use is an error that says what to do', async (t) => {
  const { running } = await start(new FakeModel())
  await t.rejects(start(new FakeModel(), { port: running.port }), {
    code: 'INVALID_ARGUMENT',
    message: /in use.*--port/,
  })
  await running.close()
})

t.test('mounted in another app, below a path, behind its own body parser', async (t) => {
  const outer = express()
  outer.use(express.json())
  outer.use('/llm', createServer(new FakeModel(), { modelId: 'inner' }))
  const server = createHttpServer(outer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/llm`
  const res = await fetch(url + chat, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(hello),
  })
  t.match(await res.json(), { model: 'inner', choices: [{ message: { content: 'Hello' } }] })
  t.equal((await fetch(`${url}/v1/models`)).status, 200)
  const page = await fetch(`${url}?from=here`)
  t.equal(page.url, `${url}/`, 'the page links its files by their names, so its address ends with a slash')
  t.match(await page.text(), /src="app\.js"/)
  t.throws(() => createServer(new FakeModel(), { port: -1 }), { code: 'INVALID_ARGUMENT' })
  server.closeAllConnections()
})
