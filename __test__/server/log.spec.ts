import t from 'tap'
import { createLogger } from '../../src/cli/log.js'
import { FakeModel } from '../helpers/fake-model.js'
import { hello, raw, serve, until } from '../helpers/http.js'

const chat = '/v1/chat/completions'
const secret = 'the owl flies at midnight'

/** A logger of the command line, and what it wrote. */
function memory(level: 'debug' | 'info' = 'info', fancy = false) {
  const lines: string[] = []
  const output: any = { write: (line: string) => lines.push(line) }
  return { logger: createLogger(level, output, fancy), lines }
}

t.test('one line a request: id, route, status, tokens, times, finish reason', async (t) => {
  const { logger, lines } = memory()
  const { post, url } = await serve(t, undefined, {}, { logger })
  const last = async (count: number) => {
    await until(() => lines.length >= count)
    t.equal(lines.length, count)
    return JSON.parse(lines.at(-1) ?? '')
  }
  await (await post(chat, hello, { headers: { 'x-request-id': 'mine-1' } })).text()
  const whole = await last(1)
  t.match(whole, {
    level: 30,
    msg: 'request',
    id: 'mine-1',
    method: 'POST',
    route: chat,
    status: 200,
    promptTokens: 11,
    cachedTokens: 0,
    completionTokens: 1,
    finishReason: 'stop',
  })
  for (const name of ['ms', 'queueMs', 'firstTokenMs']) t.ok(Number.isInteger(whole[name]) && whole[name] >= 0, name)
  await (await post('/v1/completions', { prompt: 'Hi', stream: true })).text()
  t.match(await last(2), { route: '/v1/completions', status: 200, promptTokens: 2, finishReason: 'stop' })
  await (await post(chat, { messages: [], stream: true })).text()
  const refused = await last(3)
  t.match(refused, { route: chat, status: 400, error: 'invalid_request_error' })
  t.notOk('promptTokens' in refused || 'finishReason' in refused)
  await (await fetch(`${url}/v1/v1/models`)).text()
  t.match(await last(4), { route: 'other', path: '/v1/v1/models', status: 404, error: 'unknown_url' })
  for (const path of ['/health', '/metrics']) await (await fetch(url + path)).text()
  await (await fetch(`${url}/v1/models`)).text()
  t.match(await last(5), { route: '/v1/models', status: 200 })
})

t.test('what is asked every few seconds is for debug', async (t) => {
  const { logger, lines } = memory('debug')
  const { url } = await serve(t, undefined, {}, { logger })
  for (const path of ['/health', '/metrics']) await (await fetch(url + path)).text()
  await until(() => lines.length === 2)
  t.same(
    lines.map((line) => JSON.parse(line)).map(({ level, route }) => [level, route]),
    [
      [20, '/health'],
      [20, '/metrics'],
    ],
  )
})

t.test('an answer that fails or is left says so', async (t) => {
  const { logger, lines } = memory()
  const model = new FakeModel()
  const server = await serve(t, model, {}, { logger })
  const requests = () => lines.map((line) => JSON.parse(line)).filter(({ route }) => route === chat)
  model.script = () => [
    { type: 'content', text: 'a' },
    { type: 'throw', error: new Error('broken') },
  ]
  for (const stream of [true, false]) await (await server.post(chat, { ...hello, stream })).text()
  await until(() => requests().length === 2)
  t.match(requests(), [
    { status: 200, error: 'server_error', completionTokens: 1 },
    { status: 500, error: 'server_error', completionTokens: 1 },
  ])
  model.script = () => [
    { type: 'content', text: 'a' },
    { type: 'wait', ms: 100_000 },
  ]
  const leave = new AbortController()
  const left = server.post(chat, hello, { signal: leave.signal }).catch(() => {})
  await until(() => model.running === 1)
  leave.abort()
  await left
  await until(() => requests().length === 3)
  t.match(requests()[2], { status: 499, msg: 'request aborted by the client (decode)', promptTokens: 11 })
  t.notOk('finishReason' in requests()[2])
})

t.test('never text of a prompt or an answer, never a key, at any level, whatever happens', async (t) => {
  for (const fancy of [false, true]) {
    const { logger, lines } = memory('debug', fancy)
    const model = new FakeModel()
    model.script = () => [
      { type: 'reasoning', text: secret },
      { type: 'content', text: secret },
    ]
    const server = await serve(t, model, { apiKey: 'sesame-123' }, { logger })
    const headers = { authorization: 'Bearer sesame-123', cookie: 'sesame-123' }
    const messages = [{ role: 'user', content: secret }]
    const bodies: [string, unknown][] = [
      [chat, { messages }],
      [chat, { messages, stream: true }],
      [chat, { messages, n: 2 }],
      [chat, { messages: [{ role: secret, content: 'x' }] }],
      [chat, { messages: [{ role: 'user', content: `refuse me ${secret}` }] }],
      [chat, { messages, tool_choice: { type: 'function', function: { name: secret } } }],
      [chat, `{"messages": [{"role": "user", "content": "${secret}"`],
      [chat, { messages, model: secret }],
      ['/v1/completions', { prompt: secret }],
      ['/v1/completions', { prompt: [secret, secret] }],
    ]
    for (const [path, body] of bodies) await (await server.post(path, body, { headers })).text()
    await (await server.post(chat, { messages }, { headers: { authorization: 'Bearer sesame-124' } })).text()
    await (await fetch(`${server.url}/v1/models?key=sesame-123&prompt=owl`, { headers })).text()
    await (await fetch(`${server.url}/nowhere?key=sesame-123&prompt=owl`, { headers })).text()
    model.script = () => [{ type: 'throw', error: new Error('broken') }]
    for (const stream of [false, true]) await (await server.post(chat, { messages, stream }, { headers })).text()
    await until(() => lines.filter((line) => /\brequest\b/.test(line)).length >= bodies.length + 5)
    t.notMatch(lines.join(''), /owl|midnight|sesame/)
  }
})

t.test('request text forges no lines', async (t) => {
  for (const fancy of [false, true]) {
    const { logger, lines } = memory('info', fancy)
    const { port } = await serve(t, undefined, {}, { logger })
    await raw(port, 'GET /a%0a%1b[31m{"level":30} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    await raw(port, 'GET /b HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\tb{"level":30}\r\nConnection: close\r\n\r\n')
    await until(() => lines.length === 2)
    for (const line of lines) {
      t.equal(line.trimEnd().split('\n').length, 1)
      t.notOk(line.includes('\u001b[31m'), line)
    }
  }
})
