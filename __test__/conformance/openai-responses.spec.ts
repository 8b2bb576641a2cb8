import OpenAI from 'openai'
import t from 'tap'
import { FakeModel } from '../helpers/fake-model.js'
import { serve, until } from '../helpers/http.js'

const call = {
  id: 'call_1',
  type: 'function' as const,
  function: { name: 'get_weather', arguments: '{"city": "Lagos"}' },
}
const tools: OpenAI.Responses.Tool[] = [
  { type: 'function', name: 'get_weather', parameters: { type: 'object' }, strict: false },
  { type: 'web_search' },
]

async function client(t: Parameters<typeof serve>[0], model: FakeModel, logged: string[] = []) {
  const nothing = () => {}
  const logger = { debug: nothing, warn: nothing, error: nothing, info: (_: object, text: string) => logged.push(text) }
  const server = await serve(t, model, { apiKey: 'key' }, { logger })
  return { ...server, openai: new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'key', maxRetries: 0 }) }
}

t.test('a response, whole, through the iterator, and through the helper', async (t) => {
  const model = new FakeModel()
  model.script = () => [
    { type: 'reasoning', text: 'Hm' },
    ...[...'Sunny 🍁'].map((text) => ({ type: 'content' as const, text })),
  ]
  const { openai } = await client(t, model)
  const params = { model: 'maple', input: 'Weather?', instructions: 'Be brief.' }
  const whole = await openai.responses.create(params)
  t.equal(whole.output_text, 'Sunny 🍁')
  t.match(whole, { status: 'completed', instructions: 'Be brief.', usage: { total_tokens: 25 } })
  const kinds: string[] = []
  let text = ''
  for await (const event of await openai.responses.create({ ...params, stream: true })) {
    kinds.push(event.type)
    if (event.type === 'response.output_text.delta') text += event.delta
  }
  t.equal(text, 'Sunny 🍁')
  t.equal(kinds.at(-1), 'response.completed')
  const final = await openai.responses.stream(params).finalResponse()
  t.equal(final.output_text, 'Sunny 🍁')
  t.equal(final.output[0]?.type, 'reasoning')
})

t.test('a round of tools, the output sent back as it came, streamed and not', async (t) => {
  const model = new FakeModel()
  const logged: string[] = []
  const { openai } = await client(t, model, logged)
  const user = { role: 'user' as const, content: 'Weather in Lagos?' }
  for (const streamed of [false, true]) {
    model.script = () => [
      { type: 'reasoning', text: 'Hm' },
      { type: 'content', text: 'Looking' },
      { type: 'tool_call', call },
    ]
    const params = { model: 'maple', input: [user], tools }
    const first = streamed
      ? await openai.responses.stream(params).finalResponse()
      : await openai.responses.create(params)
    const asked = first.output.at(-1)
    t.match(asked, {
      type: 'function_call',
      call_id: 'call_1',
      name: 'get_weather',
      arguments: call.function.arguments,
    })
    model.script = () => [{ type: 'content', text: 'Sunny' }]
    const second = await openai.responses.create({
      ...params,
      input: [
        user,
        ...(first.output as OpenAI.Responses.ResponseInputItem[]),
        { type: 'function_call_output', call_id: 'call_1', output: '31 °C' },
      ],
    })
    t.equal(second.output_text, 'Sunny')
    t.match(model.prompts.at(-1)?.messages, [
      user,
      { role: 'assistant', content: 'Looking', reasoning_content: 'Hm', tool_calls: [{ id: 'call_1' }] },
      { role: 'tool', tool_call_id: 'call_1', content: '31 °C' },
    ])
  }
  t.same(
    logged.filter((text) => text.startsWith('Tools')),
    ['Tools of type "web_search" are left out: only functions and custom tools work here.'],
    'said once',
  )
})

t.test('counting, and what is not kept', async (t) => {
  const { openai } = await client(t, new FakeModel())
  t.same(await openai.responses.inputTokens.count({ model: 'm', input: '12345', instructions: '67' }), {
    object: 'response.input_tokens',
    input_tokens: 7,
  })
  await t.rejects(openai.responses.retrieve('resp_1'), { status: 404, message: /resp_1/ })
  await t.rejects(openai.responses.delete('resp_1'), { status: 404, message: /resp_1/ })
  const previous = openai.responses.create({ model: 'm', input: 'x', previous_response_id: 'resp_1' })
  await t.rejects(previous, { status: 400, code: 'previous_response_not_found', param: 'previous_response_id' })
})

t.test('what breaks on the way is a failed response; an abort frees the slot', async (t) => {
  const model = new FakeModel()
  const { openai, state } = await client(t, model)
  model.script = () => [
    { type: 'content', text: 'x' },
    { type: 'throw', error: new Error('secret') },
  ]
  const events = []
  for await (const event of await openai.responses.create({ model: 'm', input: 'x', stream: true })) events.push(event)
  t.match(events.at(-1), {
    type: 'response.failed',
    response: { status: 'failed', error: { code: 'server_error', message: /^Generation failed/ } },
  })
  model.script = () => [
    { type: 'content', text: 'x' },
    { type: 'wait', ms: 3_600_000 },
  ]
  const stream = await openai.responses.create({ model: 'm', input: 'x', stream: true })
  for await (const event of stream) if (event.type === 'response.output_text.delta') break
  await until(() => state.queue.active === 0 && model.running === 0)
})
