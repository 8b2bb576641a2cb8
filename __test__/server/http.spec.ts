import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { FakeModel } from '../helpers/fake-model.js'
import { hello, raw, serve } from '../helpers/http.js'

const chat = '/v1/chat/completions'

async function errorOf(res: Response): Promise<any> {
  const body: any = await res.json()
  const { message, type, param, code, ...rest } = body.error
  if (typeof message !== 'string' || message === '' || Object.keys(rest).length > 0)
    throw new Error(JSON.stringify(body))
  return { status: res.status, type, param, code }
}

t.test('the key: before everything else, and only there', async (t) => {
  const key = 'sésame 🍁'
  const { url } = await serve(t, undefined, { apiKey: key })
  const bytes = (text: string) => Buffer.from(text, 'utf8').toString('latin1')
  const get = (authorization?: string, path = '/v1/models') =>
    fetch(url + path, authorization === undefined ? {} : { headers: { authorization } })
  for (const good of [`Bearer ${key}`, `bearer ${key}`, `BEARER   ${key}  `])
    t.equal((await get(bytes(good))).status, 200, good)
  for (const bad of [
    undefined,
    '',
    'Bearer',
    'Bearer ',
    'Bearer x',
    bytes(key),
    bytes(`Basic ${key}`),
    bytes(`Bearer ${key}x`),
    bytes(`Bearer ${key.toUpperCase()}`),
    '\xff\xfe',
    `Bearer ${'x'.repeat(8000)}`,
  ]) {
    const res = await get(bad)
    t.equal(res.headers.get('www-authenticate'), 'Bearer')
    t.strictSame(
      await errorOf(res),
      { status: 401, type: 'invalid_request_error', param: null, code: 'invalid_api_key' },
      bad ?? 'no header',
    )
  }
  t.equal((await get(undefined, '/health')).status, 200)
  t.equal((await get(undefined, '/health/')).status, 200)
  for (const path of ['/nowhere', '//v1/models', '/v1/chat/completions', '/HEALTH', '/healthx'])
    t.equal((await get(undefined, path)).status, 401, path)
  t.equal((await get(bytes(`Bearer ${key}`), '/nowhere')).status, 404)
  const post = await fetch(url + chat, { method: 'POST', body: 'not json' })
  t.equal(post.status, 401)
  t.equal((await fetch(url + chat, { method: 'OPTIONS' })).status, 204)
})

t.test('unknown paths and wrong methods', async (t) => {
  const { url, post } = await serve(t)
  for (const path of [
    '/page',
    '/v1',
    '/v1/',
    '/v1/embeddings',
    '/V1/models',
    '/v1/Models',
    '//v1/models',
    '/v1//models',
    '/v1/models//',
    '/v1/models//x',
    '/health//',
    '/v1/chat/completions/x',
    '/v1/models?x=//',
  ].slice(0, -1)) {
    t.match(
      await errorOf(await fetch(url + path)),
      { status: 404, code: 'unknown_url', type: 'invalid_request_error' },
      path,
    )
  }
  t.equal((await fetch(`${url}/v1/models?x=//`)).status, 200)
  t.equal((await fetch(`${url}/v1/models/`)).status, 200)
  t.equal((await post(`${chat}/`, hello)).status, 200)
  t.equal((await fetch(`${url}/v1/models/%zz`)).status, 400)
  const wrong: [method: string, path: string, allow: string][] = [
    ['GET', chat, 'POST, OPTIONS'],
    ['HEAD', chat, 'POST, OPTIONS'],
    ['DELETE', '/v1/completions', 'POST, OPTIONS'],
    ['POST', '/v1/models', 'GET, HEAD, OPTIONS'],
    ['PUT', '/v1/models/x', 'GET, HEAD, OPTIONS'],
    ['POST', '/health', 'GET, HEAD, OPTIONS'],
  ]
  for (const [method, path, allow] of wrong) {
    const res = await fetch(url + path, { method, ...(method === 'HEAD' ? {} : method === 'GET' ? {} : { body: '{' }) })
    t.equal(res.headers.get('allow'), allow)
    if (method === 'HEAD') t.equal(res.status, 405)
    else t.match(await errorOf(res), { status: 405, code: 'method_not_allowed' }, `${method} ${path}`)
    t.equal((await fetch(url + path, { method: 'OPTIONS' })).headers.get('allow'), allow, `OPTIONS ${path}`)
  }
  for (const path of ['/health', '/v1/models', '/v1/models/x']) {
    const [head, get] = [await fetch(url + path, { method: 'HEAD' }), await fetch(url + path)]
    t.equal(head.status, 200)
    t.equal(await head.text(), '')
    t.equal(head.headers.get('content-length'), get.headers.get('content-length'))
    await get.text()
  }
})

t.test('bodies: codings, charsets, size, shape', async (t) => {
  const model = new FakeModel()
  const { url, post } = await serve(t, model, { maxBodyBytes: 2000 })
  const json = JSON.stringify(hello)
  const send = (body: string | Uint8Array, headers: Record<string, string> = {}) => post(chat, body, { headers })
  for (const [coding, body] of [
    ['gzip', gzipSync(json)],
    ['x-gzip', gzipSync(json)],
    ['deflate', deflateSync(json)],
    ['br', brotliCompressSync(json)],
    ['GZIP', gzipSync(json)],
    ['identity', Buffer.from(json)],
  ] as const)
    t.equal((await send(body, { 'content-encoding': coding })).status, 200, coding)
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/json; charset="UTF-8"',
    'application/json;charset=utf8',
    'nonsense',
  ])
    t.equal((await send(json, { 'content-type': type })).status, 200, type)
  t.equal((await send(Buffer.from(`\uFEFF${json}`))).status, 200)
  t.equal(
    (await send(Buffer.from(json, 'utf16le'), { 'content-type': 'application/json; charset=utf-16le' })).status,
    200,
  )
  t.equal((await fetch(url + chat, { method: 'POST', body: Buffer.from(json) })).status, 200, 'no content type')

  const unsupported = { status: 415, code: 'unsupported_media_type', type: 'invalid_request_error' }
  for (const coding of ['zstd', 'compress', 'gzip, br', 'x'])
    t.match(await errorOf(await send(json, { 'content-encoding': coding })), unsupported, coding)
  for (const charset of ['latin1', 'nonsense', 'ebcdic'])
    t.match(
      await errorOf(await send(json, { 'content-type': `application/json; charset=${charset}` })),
      unsupported,
      charset,
    )

  const broken = { status: 400, type: 'invalid_request_error', param: null, code: null }
  for (const body of ['', 'x', '{', '[]', '"x"', '5', 'null', `${json}}`])
    t.strictSame(await errorOf(await send(body)), broken, body)
  t.strictSame(await errorOf(await send(json, { 'content-encoding': 'gzip' })), broken, 'not gzip')
  t.strictSame(
    await errorOf(await send(gzipSync(json).subarray(0, 30), { 'content-encoding': 'gzip' })),
    broken,
    'cut gzip',
  )
  t.equal((await fetch(url + chat, { method: 'POST' })).status, 400, 'no body')

  const tooLarge = { status: 413, code: 'request_too_large', type: 'invalid_request_error' }
  const padded = (length: number) => json.slice(0, -1) + ' '.repeat(length - json.length) + '}'
  t.equal((await send(padded(2000))).status, 200)
  t.match(await errorOf(await send(padded(2001))), tooLarge)
  t.match(await errorOf(await send(gzipSync(padded(1_000_000)), { 'content-encoding': 'gzip' })), tooLarge, 'inflated')
  const chunked = new ReadableStream({
    start(controller) {
      for (let i = 0; i < 30; i++) controller.enqueue(new Uint8Array(100).fill(0x20))
      controller.close()
    },
  })
  const res = await fetch(url + chat, { method: 'POST', body: chunked, duplex: 'half' })
  t.match(await errorOf(res), tooLarge, 'chunked')

  const before = model.prompts.length
  await send('{"messages":[{"role":"user","content":"a"}],"messages":[{"role":"user","content":"\\ud83cb\\u0000c"}]}')
  t.same(model.prompts[before]?.messages, [{ role: 'user', content: '\ufffdb\0c' }], 'last key wins')
})

t.test('cross-origin calls', async (t) => {
  const { url, post } = await serve(t)
  const origin = 'https://chat.example'
  const open = await post(chat, { ...hello, stream: true }, { headers: { origin } })
  t.equal(open.headers.get('access-control-allow-origin'), '*')
  t.match(open.headers.get('access-control-expose-headers'), /Retry-After, X-Request-Id/)
  await open.text()
  t.equal((await fetch(`${url}/nowhere`, { headers: { origin } })).headers.get('access-control-allow-origin'), '*')

  const some = await serve(t, undefined, { allowedOrigins: [origin, 'http://localhost:3000'], apiKey: 'k' })
  const preflight = await fetch(some.url + chat, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,x-stainless-os',
    },
  })
  t.equal(preflight.status, 204)
  t.equal(preflight.headers.get('access-control-allow-origin'), origin)
  t.match(preflight.headers.get('access-control-allow-methods'), /POST/)
  t.equal(preflight.headers.get('access-control-allow-headers'), 'authorization,x-stainless-os')
  t.match(preflight.headers.get('vary'), /Origin/)
  const foreign = { origin: 'https://evil.example' }
  const stranger = await fetch(some.url + chat, { method: 'OPTIONS', headers: foreign })
  t.equal(stranger.status, 204)
  t.equal(stranger.headers.get('access-control-allow-origin'), null)
  t.match(await errorOf(await some.post(chat, hello, { headers: foreign })), {
    status: 403,
    code: 'origin_not_allowed',
  })
  const unauthorised = await some.post(chat, hello, { headers: { origin } })
  t.equal(unauthorised.status, 401)
  t.equal(unauthorised.headers.get('access-control-allow-origin'), origin)
  t.equal(
    (await some.post(chat, hello, { headers: { origin: some.url, authorization: 'Bearer k' } })).status,
    200,
    'own page',
  )

  const off = await serve(t, undefined, { allowedOrigins: [] })
  const plain = await fetch(`${off.url}/v1/models`, { headers: { origin } })
  t.equal(plain.status, 200)
  t.equal(plain.headers.get('access-control-allow-origin'), null)
  t.equal((await off.post(chat, hello, { headers: { origin } })).status, 403)
})

t.test('loopback without a key answers to loopback names only', async (t) => {
  const host = (port: number, name: string, path = '/health') =>
    raw(port, `GET ${path} HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`)
  const local = await serve(t, undefined, { host: '127.0.0.1' })
  for (const name of ['localhost', 'LOCALHOST:8000', '127.0.0.1:1', '127.8.9.1', '[::1]:8000', 'maple.localhost'])
    t.match(await host(local.port, name), /^HTTP\/1.1 200/, name)
  for (const name of [
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '10.0.0.1',
    'localhost:80:80',
    '',
  ])
    t.match(await host(local.port, name), /^HTTP\/1.1 403[^]*host_not_allowed/, name)
  for (const settings of [{ host: '127.0.0.1', apiKey: 'k' }, { host: '0.0.0.0' }]) {
    const { port } = await serve(t, undefined, settings)
    t.match(await host(port, 'maple.example'), /^HTTP\/1.1 200/)
  }
})

t.test('what Node refuses by itself has the error shape too', async (t) => {
  const { port, server } = await serve(t)
  const shape =
    /content-type: application\/json[^]*\r\n\r\n\{"error":\{"message":".+","type":"invalid_request_error","param":null,"code":/i
  const cases: [string, RegExp][] = [
    ['nonsense\r\n\r\n', /^HTTP\/1.1 400/],
    ['GET /health HTTP/1.1\r\n\r\n', /^HTTP\/1.1 400/],
    [`GET /health HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, /^HTTP\/1.1 431/],
    [
      'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n',
      /^HTTP\/1.1 400/,
    ],
    ['GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: the-unexpected\r\n\r\n', /^HTTP\/1.1 417/],
  ]
  for (const [request, status] of cases) {
    const answer = await raw(port, request.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))
    t.match(answer, status)
    t.match(answer, shape)
  }
  const late = Object.assign(new Error('late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
  server.once('connection', (socket) => server.emit('clientError', late, socket))
  const answer = await raw(port, 'GET /hea')
  t.match(answer, /^HTTP\/1.1 408/)
  t.match(answer, shape)
})

t.test('request ids and other headers', async (t) => {
  const { url } = await serve(t)
  const id = async (given?: string) =>
    (await fetch(`${url}/health`, given === undefined ? {} : { headers: { 'x-request-id': given } })).headers.get(
      'x-request-id',
    )
  t.equal(await id('abc-1.2:3_4'), 'abc-1.2:3_4')
  t.match(await id(), /^[\da-f-]{36}$/)
  t.match(await id('a b"c'), /^[\da-f-]{36}$/)
  t.match(await id('x'.repeat(200)), /^[\da-f-]{36}$/)
  t.equal((await fetch(`${url}/health`)).headers.get('x-powered-by'), null)
})

t.test('the request id is on every answer: good, refused, streamed, and those that Node gives by itself', async (t) => {
  const { url, post, port } = await serve(t, undefined, { apiKey: 'k' })
  const headers = { 'x-request-id': 'mine', authorization: 'Bearer k' }
  const answers = [
    await post(chat, hello, { headers }),
    await post(chat, { ...hello, stream: true }, { headers }),
    await post(chat, { messages: [] }, { headers }),
    await post(chat, '{', { headers }),
    await post(chat, hello, { headers: { 'x-request-id': 'mine' } }),
    await fetch(`${url}/nowhere`, { headers }),
    await fetch(`${url}/health`, { method: 'POST', headers }),
    await fetch(`${url}/health`, { method: 'HEAD', headers }),
    await fetch(`${url}/health`, { method: 'OPTIONS', headers }),
    await fetch(`${url}/metrics`, { headers }),
  ]
  t.same(
    answers.map(({ status }) => status),
    [200, 200, 400, 400, 401, 404, 405, 200, 204, 200],
  )
  for (const res of answers) {
    t.equal(res.headers.get('x-request-id'), 'mine', String(res.status))
    await res.text()
  }
  const made = /\r\nX-Request-Id: [\da-f-]{36}\r\n/i
  t.match(await raw(port, 'nonsense\r\n\r\n'), made)
  t.match(await raw(port, 'GET /health HTTP/1.1\r\nHost: x\r\nExpect: y\r\nConnection: close\r\n\r\n'), made)
})

t.test('errors of the prompt come before the queue, as plain answers even when a stream is asked for', async (t) => {
  const model = new FakeModel()
  const { post } = await serve(t, model, { maxPromptTokens: 20 })
  const say = (content: string, stream: boolean) => post(chat, { messages: [{ role: 'user', content }], stream })
  for (const stream of [false, true]) {
    t.match(await errorOf(await say('x'.repeat(21), stream)), {
      status: 400,
      code: 'context_length_exceeded',
      param: 'messages',
    })
    t.equal((await say('x'.repeat(20), stream)).status, 200)
    t.match(await errorOf(await say('refuse me', stream)), { status: 400, param: 'messages', code: null })
  }
  const crowd = await errorOf(await post(chat, { messages: Array(21).fill({ role: 'user', content: '' }) }))
  t.match(crowd, { status: 400, code: 'context_length_exceeded', param: 'messages' })
  t.equal(model.prompts.length, 6, 'so many messages are not even rendered')
  const long = await post('/v1/completions', { prompt: 'x'.repeat(21) })
  t.match(await errorOf(long), { status: 400, code: 'context_length_exceeded', param: 'prompt' })
})
