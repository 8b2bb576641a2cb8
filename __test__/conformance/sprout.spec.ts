import OpenAI from 'openai'
import t from 'tap'
import { Maple } from '../../src/index.js'
import { serve, until } from '../helpers/http.js'

const model = 'maple-preview'
const temperature = 0
const maple = await Maple.load('sprout', { cacheFolder: false })
t.teardown(() => maple.dispose())

const { url, state } = await serve(t, maple)
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
const product = [{ role: 'user' as const, content: 'What is 17 * 23? Answer with just the number.' }]
const tools: OpenAI.ChatCompletionTool[] = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'Get the weather for a city',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
]

t.test('a chat thinks, and then answers; streamed it says the same', async (t) => {
  const { choices, usage } = await openai.chat.completions.create({ model, messages: product, temperature })
  const message = choices[0]?.message
  t.equal(message?.content, '391')
  t.match(message, { reasoning_content: /17 \* 3/ })
  t.equal(choices[0]?.finish_reason, 'stop')
  const reasoned = usage?.completion_tokens_details?.reasoning_tokens ?? 0
  t.ok(reasoned > 0 && reasoned < (usage?.completion_tokens ?? 0))

  const stream = await openai.chat.completions.create({
    ...{ model, messages: product, temperature, stream: true, stream_options: { include_usage: true } },
  })
  const said = { content: '', reasoning_content: '' }
  for await (const chunk of stream) {
    const delta = (chunk.choices[0]?.delta ?? {}) as Partial<typeof said>
    said.content += delta.content ?? ''
    said.reasoning_content += delta.reasoning_content ?? ''
    if (chunk.usage) t.same(chunk.usage.completion_tokens, usage?.completion_tokens)
  }
  t.match(message, said)
})

t.test('without thinking there is no reasoning', async (t) => {
  const { choices } = await openai.chat.completions.create({
    model,
    temperature,
    messages: [{ role: 'user', content: 'Say hello in French.' }],
    ...{ chat_template_kwargs: { enable_thinking: false } },
  })
  t.equal(choices[0]?.message.content, 'Bonjour')
  t.notOk('reasoning_content' in (choices[0]?.message ?? {}))
})

t.test('a round of tools, by the client’s own runner', async (t) => {
  const asked: unknown[] = []
  const runner = openai.chat.completions.runTools({
    ...{ model, temperature, messages: [{ role: 'user', content: 'What is the weather in Lagos?' }] },
    tools: (tools as OpenAI.ChatCompletionFunctionTool[]).map(({ function: { name, description = '' } }) => ({
      type: 'function' as const,
      function: {
        name,
        description,
        parameters: {},
        parse: JSON.parse as (text: string) => object,
        function: (args: object) => {
          asked.push(args)
          return '{"temperature": 31, "sky": "sunny"}'
        },
      },
    })),
  })
  t.match(await runner.finalContent(), /31.*sunny/)
  t.same(asked, [{ city: 'Lagos' }])
})

t.test('stop strings cut, in the reasoning too, and a limit says so', async (t) => {
  const ask = async (more: object) => {
    const { choices } = await openai.chat.completions.create({ model, messages: product, temperature, ...more })
    return { ...choices[0]?.message, finish: choices[0]?.finish_reason }
  }
  t.match(await ask({ stop: '17 * 3:' }), { content: '', finish: 'stop', reasoning_content: /^17 \* 23 = [^:]*$/ })
  t.match(await ask({ stop: '91', chat_template_kwargs: { enable_thinking: true } }), { finish: 'stop' })
  t.match(await ask({ max_tokens: 5 }), { content: '', finish: 'length' })
})

t.test('the raw prompt goes on where it ends', async (t) => {
  const { choices } = await openai.completions.create({ model, prompt: 'The capital of France is', temperature })
  t.match(choices[0]?.text, /^ Paris/)
})

t.test('an answer that nobody reads any more ends', async (t) => {
  const stream = await openai.chat.completions.create({ model, messages: product, temperature, stream: true })
  for await (const _ of stream) break
  await until(() => state.queue.active === 0)
  t.equal(
    (await maple.complete({ messages: product, temperature })).message.content,
    '391',
    'and the next one is right',
  )
})
