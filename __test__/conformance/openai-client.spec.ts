import OpenAI from 'openai'
import t from 'tap'
import type { ChatCompletion, ChatCompletionChunk } from '../../src/protocols/chat/types.js'
import type { TextCompletion } from '../../src/protocols/completions/types.js'
import type { WireModel } from '../../src/server/routes/models.js'
import { FakeModel } from '../helpers/fake-model.js'
import { serve, until } from '../helpers/http.js'

/** Our wire types are theirs: checked by the compiler. */
export const assignable = {
  completion: (value: ChatCompletion) =>
    value.choices[0].finish_reason satisfies OpenAI.ChatCompletion.Choice['finish_reason'],
  chunk: (value: ChatCompletionChunk) => value satisfies Omit<OpenAI.ChatCompletionChunk, 'choices' | 'usage'>,
  text: (value: TextCompletion) => value satisfies Omit<OpenAI.Completion, 'choices' | 'usage'>,
  model: (value: WireModel) => value satisfies OpenAI.Model,
}

const messages = [{ role: 'user' as const, content: 'What is the weather in Lagos?' }]
const tools = [
  {
    type: 'function' as const,
    function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
  },
]
const call = {
  id: 'call_1',
  type: 'function' as const,
  function: { name: 'get_weather', arguments: '{"city": "Lagos"}' },
}

async function client(t: Parameters<typeof serve>[0], model: FakeModel, apiKey = 'key') {
  const server = await serve(t, model, { apiKey: 'key' })
  return { ...server, openai: new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 }) }
}

t.test('a chat, whole', async (t) => {
  const model = new FakeModel()
  model.script = () => [
    { type: 'reasoning', text: 'Hm' },
    { type: 'content', text: 'Sunny' },
  ]
  const { openai } = await client(t, model)
  const completion = await openai.chat.completions.create({ model: 'maple', messages })
  const message = completion.choices[0]?.message
  t.equal(message?.content, 'Sunny')
  t.match(message, { reasoning_content: 'Hm' })
  t.equal(completion.usage?.total_tokens, 31)
  t.ok(completion._request_id)
})

t.test('a chat, streamed', async (t) => {
  const model = new FakeModel()
  model.script = () => [...'Sunny 🍁'].map((text) => ({ type: 'content', text }))
  const { openai } = await client(t, model)
  const stream = openai.chat.completions.stream({ model: 'm', messages, stream_options: { include_usage: true } })
  let text = ''
  stream.on('content', (delta) => (text += delta))
  const final = await stream.finalChatCompletion()
  t.equal(text, 'Sunny 🍁')
  t.equal(final.choices[0]?.message.content, text)
  t.equal(final.choices[0]?.finish_reason, 'stop')
  t.equal(final.usage?.completion_tokens, 7)
})

t.test('a round of tools, streamed and not', async (t) => {
  const model = new FakeModel()
  const { openai } = await client(t, model)
  for (const streamed of [false, true]) {
    model.script = () => [{ type: 'tool_call', call }]
    const first = streamed
      ? await openai.chat.completions.stream({ model: 'm', messages, tools }).finalChatCompletion()
      : await openai.chat.completions.create({ model: 'm', messages, tools })
    const message = first.choices[0]?.message
    t.ok(message)
    if (!message) continue
    t.equal(first.choices[0]?.finish_reason, 'tool_calls')
    t.match(message.tool_calls, [call])
    model.script = () => [{ type: 'content', text: 'Sunny' }]
    const second = await openai.chat.completions.create({
      model: 'm',
      messages: [...messages, message, { role: 'tool', tool_call_id: call.id, content: '31 °C' }],
      tools,
    })
    t.equal(second.choices[0]?.message.content, 'Sunny')
    t.equal(model.prompts.at(-1)?.messages.length, 3)
  }
})

t.test('errors arrive as the client’s own classes, in a stream too', async (t) => {
  const model = new FakeModel()
  const { openai, url } = await client(t, model)
  const create = (body: object) => openai.chat.completions.create({ model: 'm', messages, ...body })
  await t.rejects(create({ n: 2 }), { status: 400, param: 'n', message: /n must be 1/ })
  const other = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'wrong', maxRetries: 0 })
  await t.rejects(other.models.list(), { status: 401, code: 'invalid_api_key' })
  model.script = () => [
    { type: 'content', text: 'x' },
    { type: 'throw', error: new Error('broken') },
  ]
  const stream = await openai.chat.completions.create({ model: 'm', messages, stream: true })
  await t.rejects(
    (async () => {
      for await (const _ of stream);
    })(),
    { message: /Generation failed/ },
  )
})

t.test('an abort frees the slot', async (t) => {
  const model = new FakeModel()
  model.script = function* () {
    for (;;) {
      yield { type: 'content', text: 'word ' }
      yield { type: 'wait', ms: 1 }
    }
  }
  const { openai, state } = await client(t, model)
  const stream = await openai.chat.completions.create({ model: 'm', messages, stream: true })
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break
  await until(() => state.queue.active === 0 && model.running === 0)
  const controller = new AbortController()
  const whole = openai.chat.completions.create({ model: 'm', messages }, { signal: controller.signal })
  await until(() => state.queue.active === 1)
  controller.abort()
  await t.rejects(whole, { message: /aborted/ })
  await until(() => state.queue.active === 0 && model.running === 0)
  t.equal(model.cancelled, 2)
})

t.test('models and raw completions', async (t) => {
  const { openai } = await client(t, new FakeModel())
  const { data } = await openai.models.list()
  t.equal(data[0]?.id, 'maple-preview')
  t.equal((await openai.models.retrieve('maple-preview')).owned_by, 'deepgrove')
  const completion = await openai.completions.create({ model: 'm', prompt: 'Once' })
  t.equal(completion.choices[0]?.text, 'Hello')
  let text = ''
  for await (const chunk of await openai.completions.create({ model: 'm', prompt: 'Once', stream: true }))
    text += chunk.choices[0]?.text ?? ''
  t.equal(text, 'Hello')
})
