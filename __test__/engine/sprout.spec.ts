import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type ChatParams, type Completion, Maple } from '../../src/index.js'
import { fixture } from '../helpers/fixtures.js'
import { readGolden } from '../helpers/golden.js'

const folder = fixture('sprout')

async function load(t: Test, dtype: 'float32' | 'int16'): Promise<Maple> {
  const model = await Maple.load('sprout', { dtype, cacheFolder: false })
  t.teardown(() => model.dispose())
  return model
}

t.test('logits and every greedy token are those of the recipe', async (t) => {
  const golden = await readGolden(folder)
  for (const dtype of ['float32', 'int16'] as const) {
    const model = await load(t, dtype)
    for (const { prompt, greedy, positions, logits } of golden.cases) {
      const tokens: number[] = []
      const params = { temperature: 0, ignoreEos: true, maxTokens: greedy.length }
      for await (const event of model.generate(prompt, params)) if (event.token !== undefined) tokens.push(event.token)
      t.same(tokens, greedy, dtype)
      const rows = await model.logits(prompt, { positions })
      const expected = logits[0] ?? []
      const scale = Math.max(...expected.map(Math.abs))
      const error = Math.max(...expected.map((value, id) => Math.abs(value - (rows[0]?.[id] ?? NaN)))) / scale
      t.ok(error <= golden.bounds[dtype], `${dtype}: ${error}`)
    }
  }
})

t.test('text becomes the ids it was trained on, and back', async (t) => {
  const { cases } = JSON.parse(await readFile(join(folder, 'golden.json'), 'utf8')) as {
    cases: { text: string; prompt: number[]; greedy: number[]; output: string }[]
  }
  const model = await load(t, 'int16')
  for (const { text, prompt, greedy, output } of cases) {
    t.same([...model.tokenize(text, { special: true })], prompt)
    t.equal(model.detokenize(greedy, { special: true }), output)
  }
})

const weather = {
  type: 'function' as const,
  function: {
    name: 'get_weather',
    description: 'Get the weather for a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

t.test('it thinks, answers and calls a tool', async (t) => {
  const model = await load(t, 'int16')
  const ask = (content: string, more: Partial<ChatParams> = {}): Promise<Completion> =>
    model.complete({ messages: [{ role: 'user', content }], temperature: 0, ...more })

  const product = await ask('What is 17 * 23? Answer with just the number.')
  t.match(product.message.reasoningContent ?? '', /17 \* 3/)
  t.equal(product.message.content, '391')

  const hello = await ask('Say hello in French.', { enableThinking: false })
  t.equal(hello.message.reasoningContent, undefined)
  t.equal(hello.message.content, 'Bonjour')

  const call = await ask('What is the weather in Lagos?', { tools: [weather] })
  t.equal(call.finishReason, 'tool_calls')
  const [first] = call.message.toolCalls ?? []
  t.equal(first?.function.name, 'get_weather')
  t.same(JSON.parse(first?.function.arguments ?? ''), { city: 'Lagos' })

  const capital = await model.tokenizePrompt('The capital of France is')
  const tokens: number[] = []
  for await (const event of model.generate(capital, { temperature: 0 }))
    if (event.token !== undefined) tokens.push(event.token)
  t.match(model.detokenize(tokens), /^ Paris/)
})
