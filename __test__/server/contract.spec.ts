import t from 'tap'
import { FakeModel } from '../helpers/fake-model.js'
import { hello, parseEvents, serve } from '../helpers/http.js'

const hex = /[0-9a-f]{24,}$/

function thinkingModel(): FakeModel {
  const model = new FakeModel()
  model.script = () => [
    { type: 'reasoning', text: 'We need' },
    { type: 'reasoning', text: ' to answer' },
    { type: 'content', text: '391' },
  ]
  return model
}

t.test('a chat answer in the shape of the contract, key by key', async (t) => {
  const { post } = await serve(t, thinkingModel())
  const res = await post('/v1/chat/completions', hello)
  t.equal(res.status, 200)
  t.match(res.headers.get('content-type'), /^application\/json/)
  const body: any = await res.json()
  t.match(body.id, new RegExp(`^chatcmpl-${hex.source}`))
  t.ok(Math.abs(body.created - Date.now() / 1000) < 60)
  t.strictSame(body, {
    id: body.id,
    object: 'chat.completion',
    created: body.created,
    model: 'maple-preview',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: '391', reasoning_content: 'We need to answer' },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: {
      prompt_tokens: 11,
      completion_tokens: 3,
      total_tokens: 14,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 2 },
    },
  })
})

t.test('a streamed chat, byte for byte', async (t) => {
  const { post } = await serve(t, thinkingModel())
  const res = await post('/v1/chat/completions', {
    ...hello,
    model: 'mine',
    stream: true,
    stream_options: { include_usage: true },
  })
  t.equal(res.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  t.equal(res.headers.get('cache-control'), 'no-cache')
  t.equal(res.headers.get('x-accel-buffering'), 'no')
  const text = await res.text()
  const { id, created } = parseEvents(text).events[0]
  const head = `"id":"${id}","object":"chat.completion.chunk","created":${created},"model":"mine"`
  const chunk = (delta: string, reason = 'null') =>
    `data: {${head},"choices":[{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${reason}}],"usage":null}\n\n`
  t.equal(
    text,
    chunk('{"role":"assistant","content":""}') +
      chunk('{"reasoning_content":"We need"}') +
      chunk('{"reasoning_content":" to answer"}') +
      chunk('{"content":"391"}') +
      chunk('{}', '"stop"') +
      `data: {${head},"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":3,"total_tokens":14,` +
      `"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":2}}}\n\n` +
      'data: [DONE]\n\n',
  )
  t.match(id, hex)
})

t.test('no usage key without include_usage', async (t) => {
  const { post } = await serve(t)
  for (const more of [{}, { stream_options: null }, { stream_options: { include_usage: false } }]) {
    const { events, done } = parseEvents(
      await (await post('/v1/chat/completions', { ...hello, ...more, stream: true })).text(),
    )
    t.ok(done)
    for (const event of events) t.notOk('usage' in event)
    t.equal(events.at(-1).choices[0].finish_reason, 'stop')
  }
})

t.test('tool calls, streamed and not', async (t) => {
  const model = new FakeModel()
  const call = (n: number) => ({
    id: `call_${n}`,
    type: 'function' as const,
    function: { name: 'get_weather', arguments: '{"city": "Lagos"}' },
  })
  model.script = () => [
    { type: 'tool_call', call: call(1) },
    { type: 'tool_call', call: call(2) },
  ]
  const { post } = await serve(t, model)
  const body: any = await (await post('/v1/chat/completions', hello)).json()
  t.strictSame(body.choices[0], {
    index: 0,
    message: { role: 'assistant', content: null, tool_calls: [call(1), call(2)] },
    logprobs: null,
    finish_reason: 'tool_calls',
  })
  const { events } = parseEvents(await (await post('/v1/chat/completions', { ...hello, stream: true })).text())
  t.strictSame(
    events.map((event) => event.choices[0].delta),
    [
      { role: 'assistant', content: '' },
      { tool_calls: [{ index: 0, ...call(1) }] },
      { tool_calls: [{ index: 1, ...call(2) }] },
      {},
    ],
  )
  t.equal(events.at(-1).choices[0].finish_reason, 'tool_calls')
})

t.test('reasoning can be left out; an answer cut inside it has empty content', async (t) => {
  const model = new FakeModel()
  const usage = { promptTokens: 11, completionTokens: 2, cachedTokens: 4, reasoningTokens: 2 }
  model.script = () => [
    { type: 'reasoning', text: 'Hm' },
    { type: 'finish', reason: 'length', usage },
  ]
  const { post } = await serve(t, model)
  const cut: any = await (await post('/v1/chat/completions', hello)).json()
  t.strictSame(cut.choices[0].message, { role: 'assistant', content: '', reasoning_content: 'Hm' })
  t.equal(cut.choices[0].finish_reason, 'length')
  const bare: any = await (await post('/v1/chat/completions', { ...hello, include_reasoning: false })).json()
  t.strictSame(bare.choices[0].message, { role: 'assistant', content: '' })
  t.strictSame(bare.usage.completion_tokens_details, { reasoning_tokens: 2 })
  t.strictSame(bare.usage.prompt_tokens_details, { cached_tokens: 4 })
  const { events } = parseEvents(
    await (await post('/v1/chat/completions', { ...hello, include_reasoning: false, stream: true })).text(),
  )
  t.strictSame(
    events.map((event) => event.choices[0].delta),
    [{ role: 'assistant', content: '' }, {}],
  )
  const { post: quiet } = await serve(t, model, { includeReasoning: false })
  const byDefault: any = await (await quiet('/v1/chat/completions', hello)).json()
  t.notOk('reasoning_content' in byDefault.choices[0].message)
})

t.test('raw completions, streamed and not', async (t) => {
  const model = new FakeModel()
  const { post } = await serve(t, model)
  const body: any = await (await post('/v1/completions', { prompt: 'Once' })).json()
  t.match(body.id, new RegExp(`^cmpl-${hex.source}`))
  t.strictSame(body, {
    id: body.id,
    object: 'text_completion',
    created: body.created,
    model: 'maple-preview',
    choices: [{ index: 0, text: 'Hello', logprobs: null, finish_reason: 'stop' }],
    usage: {
      prompt_tokens: 4,
      completion_tokens: 1,
      total_tokens: 5,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 0 },
    },
  })
  const { events, done } = parseEvents(
    await (
      await post('/v1/completions', { prompt: 'Once', stream: true, stream_options: { include_usage: true } })
    ).text(),
  )
  t.ok(done)
  const { id, created, model: name } = events[0]
  const head = { id, object: 'text_completion', created, model: name }
  t.strictSame(events, [
    { ...head, choices: [{ index: 0, text: 'Hello', logprobs: null, finish_reason: null }], usage: null },
    { ...head, choices: [{ index: 0, text: '', logprobs: null, finish_reason: 'stop' }], usage: null },
    { ...head, choices: [], usage: body.usage },
  ])
  for (const prompt of [['Once'], [79, 10, 99, 1], [[79, 10, 99, 1]]]) await post('/v1/completions', { prompt })
  t.strictSame(model.rawPrompts.slice(-3), [
    [79, 10, 99, 1],
    [79, 10, 99, 1],
    [79, 10, 99, 1],
  ])
})

t.test('models', async (t) => {
  const { url } = await serve(t, undefined, { modelId: 'org/maple' })
  const list: any = await (await fetch(`${url}/v1/models`)).json()
  t.strictSame(list, {
    object: 'list',
    data: [{ id: 'org/maple', object: 'model', created: list.data[0].created, owned_by: 'deepgrove' }],
  })
  for (const id of ['org/maple', 'org%2Fmaple', 'org/maple/', 'another']) {
    t.strictSame(await (await fetch(`${url}/v1/models/${id}`)).json(), list.data[0], id)
  }
  const { url: strict } = await serve(t, undefined, { modelId: 'org/maple', strictModel: true })
  for (const id of ['org/maple', 'org%2Fmaple', 'org/maple/'])
    t.equal((await fetch(`${strict}/v1/models/${id}`)).status, 200)
  const res = await fetch(`${strict}/v1/models/another`)
  t.equal(res.status, 404)
  t.match(await res.json(), { error: { type: 'invalid_request_error', code: 'model_not_found', param: 'model' } })
})

t.test('strict about the model of a request', async (t) => {
  const { post } = await serve(t, undefined, { strictModel: true })
  for (const path of ['/v1/chat/completions', '/v1/completions']) {
    const res = await post(path, { ...hello, prompt: 'x', model: 'gpt-4' })
    t.equal(res.status, 404)
    t.match(await res.json(), { error: { code: 'model_not_found', param: 'model' } })
    for (const model of [undefined, null, '', 'maple-preview'])
      t.match(await (await post(path, { ...hello, prompt: 'x', model })).json(), { model: 'maple-preview' })
  }
})

t.test('health: ok, loading, failed', async (t) => {
  const { url } = await serve(t)
  const { version, ...ok }: any = await (await fetch(`${url}/health`)).json()
  t.match(version, /^\d+\.\d+\.\d+/)
  t.strictSame(ok, {
    status: 'ok',
    model: 'maple-preview',
    model_path: 'fake/model',
    device: 'cpu',
    dtype: 'float32 + int8 ternary experts (6 packed)',
    attention: 'fake',
    simd: 'scalar',
    context_length: 1000,
    load_seconds: 0.5,
    queue_depth: 0,
    active: 0,
  })

  let loaded: (model: FakeModel) => void = () => {}
  const pending = new Promise<FakeModel>((resolve) => (loaded = resolve))
  const loading = await serve(
    t,
    pending,
    { modelPath: 'some/repo' },
    { progress: () => ({ phase: 'load', loadedBytes: 5, totalBytes: 9 }) },
  )
  const res = await fetch(`${loading.url}/health`)
  t.equal(res.status, 200)
  t.match(await res.json(), {
    status: 'loading',
    model_path: 'some/repo',
    phase: 'load',
    loaded_bytes: 5,
    total_bytes: 9,
    active: 0,
  })
  t.equal((await fetch(`${loading.url}/v1/models`)).status, 200)
  const early = await loading.post('/v1/chat/completions', hello)
  t.equal(early.status, 503)
  t.match(await early.json(), { error: { type: 'server_error', code: 'model_loading', param: null } })
  loaded(new FakeModel())
  await pending
  t.equal((await loading.post('/v1/chat/completions', hello)).status, 200)

  const failed = await serve(t, Promise.reject(new Error('no such folder')))
  const bad = await fetch(`${failed.url}/health`)
  t.equal(bad.status, 503)
  t.match(await bad.json(), { status: 'error', message: 'no such folder', queue_depth: 0 })
  t.match(await (await failed.post('/v1/chat/completions', hello)).json(), {
    error: { type: 'server_error', code: 'model_load_failed' },
  })
})
