import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { createError } from '../../src/errors.js'
import { FakeModel } from '../helpers/fake-model.js'
import { hello, parseEvents, serve, until, type TestServer } from '../helpers/http.js'

const chat = '/v1/chat/completions'
const forever = [{ type: 'wait', ms: 3_600_000 }] as const

/** A model whose answers never end by themselves. */
function endlessModel(): FakeModel {
  const model = new FakeModel()
  model.script = function* () {
    for (;;) {
      yield { type: 'content', text: 'word ' }
      yield { type: 'wait', ms: 1 }
    }
  }
  return model
}

const busy = ({ state }: TestServer) => [state.queue.active, state.queue.depth]

t.test('errors after the slot was granted: an event, then [DONE], and no finish', async (t) => {
  const model = new FakeModel()
  const server = await serve(t, model)
  for (const error of [
    new Error('secret /path'),
    createError('ENGINE_FAILED', 'secret'),
    createError('INVALID_ARGUMENT', 'x'),
    'text',
  ]) {
    model.script = () => [
      { type: 'content', text: 'Hel' },
      { type: 'throw', error },
    ]
    const res = await server.post(chat, { ...hello, stream: true })
    t.equal(res.status, 200)
    const text = await res.text()
    const { events, done } = parseEvents(text)
    t.ok(done)
    t.equal(events.length, 3)
    t.strictSame(events[2], {
      error: { message: 'Generation failed inside the model.', type: 'server_error', param: null, code: null },
    })
    t.notMatch(text, /secret|"finish_reason":"/)
    const whole = await server.post(chat, hello)
    t.equal(whole.status, 500)
    t.match(await whole.json(), { error: { type: 'server_error', message: /^Generation failed/ } })
    t.same(busy(server), [0, 0])
  }
  // That the numbers overflowed, and where, is for the client too; it names nothing of this machine.
  const error = createError('NUMBERS_OVERFLOWED', 'overflowed in layer 3')
  model.script = () => [{ type: 'throw', error }]
  const told = { message: 'overflowed in layer 3', type: 'server_error', param: null, code: 'numbers_overflowed' }
  const streamed = await (await server.post(chat, { ...hello, stream: true })).text()
  t.strictSame(parseEvents(streamed).events.at(-1), { error: told })
  const collected = await server.post(chat, hello)
  t.equal(collected.status, 500)
  t.strictSame(await collected.json(), { error: told })
  model.script = () => {
    throw new Error('before the first event')
  }
  t.match(parseEvents(await (await server.post(chat, { ...hello, stream: true })).text()).events.at(-1), { error: {} })
  t.equal((await server.post('/v1/completions', { prompt: 'x' })).status, 500)
  t.same(busy(server), [0, 0])
})

t.test('an event stream that ends without a finish is an error, not a success', async (t) => {
  const model = new FakeModel()
  model.runChat = async function* () {}
  const { post } = await serve(t, model)
  t.equal((await post(chat, hello)).status, 500)
  t.match(parseEvents(await (await post(chat, { ...hello, stream: true })).text()).events[1], { error: {} })
})

t.test(
  'a full queue and a wait that took too long: 503 with Retry-After, streamed or not; health still answers',
  async (t) => {
    const server = await serve(t, endlessModel(), { maxQueueDepth: 1, queueTimeout: 0.05 })
    const running = new AbortController()
    const first = server.post(chat, { ...hello, stream: true }, { signal: running.signal })
    await until(() => server.state.queue.active === 1)
    for (const stream of [false, true]) {
      const waiting = server.post(chat, { ...hello, stream })
      await until(() => server.state.queue.depth === 1)
      const refused = await server.post(chat, { ...hello, stream })
      t.match(await (await fetch(`${server.url}/health`)).json(), { status: 'ok', active: 1 })
      for (const res of [refused, await waiting]) {
        t.equal(res.status, 503)
        t.equal(res.headers.get('retry-after'), '5')
        t.match(await res.json(), { error: { type: 'server_error', code: 'engine_overloaded', param: null } })
      }
    }
    await first
    running.abort()
    await until(() => server.state.queue.active === 0)
  },
)

t.test('the role chunk comes with the slot, comments come in silence', async (t) => {
  const model = new FakeModel()
  model.script = () => [
    { type: 'wait', ms: 80 },
    { type: 'content', text: 'late' },
  ]
  const server = await serve(t, model, { keepAliveInterval: 0.02 })
  const text = await (await server.post(chat, { ...hello, stream: true })).text()
  t.match(text, /^data: [^\n]*"role":"assistant"[^\n]*\n\n: keep-alive\n\n/)
  const { events, done, comments } = parseEvents(text)
  t.ok(done && comments >= 1)
  t.equal(events[1].choices[0].delta.content, 'late')
})

t.test('comments while waiting in the queue turn a later refusal into an event', async (t) => {
  const server = await serve(t, endlessModel(), { keepAliveInterval: 0.02, queueTimeout: 0.15 })
  const running = new AbortController()
  const first = server.post(chat, { ...hello, stream: true }, { signal: running.signal })
  await until(() => server.state.queue.active === 1)
  const res = await server.post(chat, { ...hello, stream: true })
  t.equal(res.status, 200)
  const { events, done, comments } = parseEvents(await res.text())
  t.ok(done && comments >= 1)
  t.match(events, [{ error: { type: 'server_error', code: 'engine_overloaded' } }])
  await first
  running.abort()
})

t.test('a reader that takes nothing loses its slot, one that is slow keeps it', async (t) => {
  const model = new FakeModel()
  model.script = function* () {
    for (let i = 0; i < 400; i++) yield { type: 'content', text: 'x'.repeat(100_000) }
  }
  const server = await serve(t, model, { sendTimeout: 0.2 })
  const body = JSON.stringify({ ...hello, stream: true })
  const request = `POST ${chat} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const stuck = connect(server.port, '127.0.0.1')
  stuck.on('error', () => {})
  stuck.pause()
  stuck.write(request)
  await until(() => server.state.queue.active === 1)
  await until(() => server.state.queue.active === 0)
  t.equal(model.cancelled, 1)
  stuck.destroy()

  const slow = connect(server.port, '127.0.0.1')
  let received = 0
  slow.on('data', (chunk) => {
    received += chunk.length
    slow.pause()
    setTimeout(() => slow.resume(), 1)
  })
  slow.write(request.replace('Host: x', 'Host: x\r\nConnection: close'))
  await once(slow, 'close')
  t.ok(received > 40_000_000, `${received} bytes`)
  t.equal(model.cancelled, 1)
  t.same(busy(server), [0, 0])
})

t.test('a finished answer that nobody takes does not hold its connection', async (t) => {
  const model = new FakeModel()
  model.script = () => [{ type: 'content', text: 'x'.repeat(40_000_000) }]
  const server = await serve(t, model, { sendTimeout: 0.2 })
  const body = JSON.stringify(hello)
  const socket = connect(server.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.pause()
  const connection = once(server.server, 'connection')
  socket.write(`POST ${chat} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  const [peer] = await connection
  await once(peer, 'close')
  t.same(busy(server), [0, 0])
  socket.destroy()
})

t.test('50 requests aborted at random moments, then a normal one', async (t) => {
  const model = endlessModel()
  const server = await serve(t, model)
  let seed = 7
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647
  await Promise.all(
    Array.from({ length: 50 }, async (_, i) => {
      const controller = new AbortController()
      await new Promise((resolve) => setTimeout(resolve, random() * 100))
      setTimeout(() => controller.abort(), random() * 60)
      const body = i % 3 === 0 ? { prompt: 'x', stream: i % 2 === 0 } : { ...hello, stream: i % 2 === 0 }
      try {
        const res = await server.post(i % 3 === 0 ? '/v1/completions' : chat, body, { signal: controller.signal })
        await res.text()
      } catch {
        // Aborted, as intended.
      }
    }),
  )
  await until(() => busy(server).every((n) => n === 0) && model.running === 0)
  model.script = () => [{ type: 'content', text: 'fine' }]
  t.match(await (await server.post(chat, hello)).json(), { choices: [{ message: { content: 'fine' } }] })
  // One whose client left while it was on its way may only now take its turn; then nothing holds a slot any more.
  const idle = async (): Promise<boolean> => {
    const { active, queue_depth: depth } = (await (await fetch(`${server.url}/health`)).json()) as Record<
      string,
      unknown
    >
    return active === 0 && depth === 0 && model.running === 0
  }
  while (!(await idle())) await new Promise((resolve) => setTimeout(resolve, 2))
})

t.test('pipelined requests: both are answered; when the connection goes, both are cancelled', async (t) => {
  const model = new FakeModel()
  const server = await serve(t, model)
  const body = JSON.stringify(hello)
  const request = `POST ${chat} HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const socket = connect(server.port, '127.0.0.1')
  let text = ''
  socket.on('data', (chunk) => (text += String(chunk)))
  socket.write(request + request)
  await until(() => text.split('"finish_reason":"stop"').length === 3)
  model.script = () => forever
  socket.write(request + request)
  await until(() => busy(server).join() === '1,1')
  socket.destroy()
  await until(() => busy(server).join() === '0,0')
  t.equal(model.running, 0)
})
