import t from 'tap'
import { createConfig } from '../../src/config.js'
import { readChat } from '../../src/protocols/chat/read.js'
import { chatValidator } from '../../src/protocols/chat/schema.js'
import { completions } from '../../src/protocols/completions/index.js'
import type { AnswerOperation, ModelBody } from '../../src/protocols/protocol.js'
import { ApiError } from '../../src/wire/errors.js'
import { checkCount, fitWindow, readModel } from '../../src/wire/limits.js'
import { readStream } from '../../src/wire/openai/sampling.js'
import type { Validator } from '../../src/wire/schema.js'

const defaults = createConfig()
const user = { role: 'user', content: 'Hi' }
const weather = { type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }

function chat(body: object) {
  const given: unknown = { messages: [user], ...body }
  chatValidator.shape(given)
  const model = readModel(given.model, defaults)
  chatValidator.rules(given)
  const includeReasoning = given.include_reasoning ?? defaults.includeReasoning
  return { model, ...readStream(given), includeReasoning, params: readChat(given, defaults) }
}

const createCompletion = completions.endpoints[0]?.post as AnswerOperation

function completion(body: object) {
  const given = { prompt: 'Hi', ...body } as ModelBody
  const request: Validator<ModelBody> = createCompletion.request
  request.shape(given)
  request.rules(given)
  const { work, stream } = createCompletion.read(given, { defaults, model: 'm', vocabSize: 100 })
  return { ...work, stream }
}

function refusal(call: () => unknown): ApiError {
  try {
    call()
  } catch (error) {
    if (error instanceof ApiError) return error
    throw error
  }
  throw new Error('was accepted')
}

t.test('defaults, caps and spellings', (t) => {
  t.match(chat({}).params, { maxTokens: 4096, temperature: 0.6, topP: 0.95, topK: 20, stop: [], enableThinking: true })
  t.equal(chat({}).params.seed, undefined)
  t.equal(chat({ max_tokens: 5 }).params.maxTokens, 5)
  t.equal(chat({ max_tokens: 5, max_completion_tokens: 7 }).params.maxTokens, 7)
  t.equal(chat({ max_tokens: 5, max_completion_tokens: null }).params.maxTokens, 5)
  t.equal(chat({ max_tokens: 99_999 }).params.maxTokens, 32_768)
  t.equal(chat({ max_tokens: 99999999999999999999n }).params.maxTokens, 32_768)
  t.equal(completion({ max_completion_tokens: 7 }).params.maxTokens, 7)
  t.strictSame(chat({ stop: ['a', '', 'b'] }).params.stop, ['a', 'b'])
  t.strictSame(chat({ stop: 'a' }).params.stop, ['a'])
  t.strictSame(chat({ stop: '' }).params.stop, [])
  t.equal(chat({ seed: -1 }).params.seed, -1)
  t.equal(chat({ seed: 2n ** 70n }).params.seed, 2n ** 70n)
  t.equal(chat({ seed: 1e20 }).params.seed, 10n ** 20n)
  t.equal(chat({ top_k: 10 ** 12 }).params.topK, 2 ** 31 - 1)
  t.equal(chat({ tools: [] }).params.tools, undefined)
  t.strictSame(
    chat({ tools: [weather], tool_choice: { type: 'function', function: { name: 'get_weather' } } }).params.tools,
    [weather],
  )
  t.equal(chat({ model: 'x' }).model, 'x')
  t.end()
})

t.test('null is absent for every optional field, and unknown fields are ignored', (t) => {
  const fields =
    'model tools tool_choice temperature top_p top_k max_tokens max_completion_tokens stop seed stream stream_options repetition_penalty chat_template_kwargs include_reasoning presence_penalty frequency_penalty user n logprobs top_logprobs response_format'
  const nulls = Object.fromEntries(fields.split(' ').map((field) => [field, null]))
  t.strictSame(chat(nulls), chat({}))
  const ignored = {
    parallel_tool_calls: 3,
    logit_bias: 'x',
    store: [],
    metadata: 7,
    chat_template: '{{ x }}',
    brand_new: {},
  }
  t.strictSame(chat(ignored), chat({}))
  const { stream, includeUsage } = chat({ stream_options: { include_usage: true } })
  t.strictSame({ stream, includeUsage }, { stream: false, includeUsage: false })
  for (const body of [{ suffix: '' }, { suffix: null, echo: null }, { logprobs: false, echo: false, best_of: 1, n: 1 }])
    t.strictSame(completion(body), completion({}))
  t.end()
})

t.test('values that are accepted', (t) => {
  const accepted: object[] = [
    { temperature: 0 },
    { temperature: 2 },
    { top_p: 1e-9 },
    { top_k: -1 },
    { n: 1 },
    { logprobs: false, top_logprobs: 0 },
    { response_format: { type: 'text' } },
    { response_format: { type: 'json_object' } },
    { tool_choice: 'required' },
    { stop: Array.from({ length: 16 }, () => 'x'.repeat(4096)) },
    { chat_template_kwargs: { enable_thinking: false, colour: 'red', __proto__: { a: 1 } } },
    {
      messages: [
        { role: 'developer', content: '' },
        { role: 'user', content: [] },
      ],
    },
    { messages: [user, { role: 'assistant' }, { role: 'tool', content: null, name: 7 }] },
    {
      messages: [
        user,
        {
          ...{ role: 'assistant', content: null, refusal: null, audio: null, annotations: [], function_call: null },
          ...{ tool_calls: [], reasoning_content: 'Hm' },
        },
        { role: 'assistant', content: 'x', tool_calls: null, reasoning: 'Hm' },
        { role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: null } }] },
        {
          role: 'assistant',
          tool_calls: [{ function: { name: 'f', arguments: { a: 1 } } }, { function: { name: 'f' } }],
        },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'input_text', text: '' },
          ],
        },
      ],
    },
    { tools: [{ type: 'function', function: { name: 'f', parameters: null, strict: true } }] },
  ]
  for (const body of accepted) t.doesNotThrow(() => chat(body), JSON.stringify(body).slice(0, 100))
  t.end()
})

t.test('values that are refused, with the field that is wrong', (t) => {
  const many = (text: string, count: number) => Array.from({ length: count }, () => text)
  const refused: [body: object, param: string][] = [
    [{ messages: undefined }, 'messages'],
    [{ messages: null }, 'messages'],
    [{ messages: [] }, 'messages'],
    [{ messages: 'Hi' }, 'messages'],
    [{ messages: ['Hi'] }, 'messages[0]'],
    [{ messages: [user, { content: 'x' }] }, 'messages[1]'],
    [{ messages: [{ role: 'robot', content: 'x' }] }, 'messages[0]'],
    [{ messages: [{ role: 'user' }] }, 'messages[0].content'],
    [{ messages: [{ role: 'user', content: null }] }, 'messages[0].content'],
    [{ messages: [{ role: 'system', content: null }] }, 'messages[0].content'],
    [{ messages: [{ role: 'developer' }] }, 'messages[0].content'],
    [{ messages: [{ role: 'user', content: 5 }] }, 'messages[0].content'],
    [{ messages: [user, { role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] }, 'messages[1]'],
    [{ messages: [{ role: 'user', content: [{ type: 'text' }] }] }, 'messages[0]'],
    [{ messages: [{ role: 'user', content: [{ type: 'text', text: null }] }] }, 'messages[0]'],
    [{ messages: [{ role: 'user', content: ['x'] }] }, 'messages[0]'],
    [{ messages: [{ role: 'assistant', tool_calls: [{ function: {} }] }] }, 'messages[0].tool_calls[0].function.name'],
    [
      { messages: [{ role: 'assistant', tool_calls: [{ function: { name: 'f', arguments: 5 } }] }] },
      'messages[0].tool_calls[0].function.arguments',
    ],
    [{ messages: [{ role: 'assistant', reasoning_content: 5 }] }, 'messages[0].reasoning_content'],
    [{ temperature: -0.1 }, 'temperature'],
    [{ temperature: 2.1 }, 'temperature'],
    [{ temperature: '0.5' }, 'temperature'],
    [{ temperature: true }, 'temperature'],
    [{ temperature: Infinity }, 'temperature'],
    [{ temperature: 10n ** 20n }, 'temperature'],
    [{ top_p: 0 }, 'top_p'],
    [{ top_p: 1.01 }, 'top_p'],
    [{ top_k: -2 }, 'top_k'],
    [{ top_k: 1.5 }, 'top_k'],
    [{ repetition_penalty: 0 }, 'repetition_penalty'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ max_tokens: 5, max_completion_tokens: -1 }, 'max_completion_tokens'],
    [{ max_tokens: 0, max_completion_tokens: 5 }, 'max_tokens'],
    [{ max_tokens: 1.5 }, 'max_tokens'],
    [{ max_tokens: '5' }, 'max_tokens'],
    [{ seed: 1.5 }, 'seed'],
    [{ seed: '1' }, 'seed'],
    [{ stop: 5 }, 'stop'],
    [{ stop: ['a', 5] }, 'stop'],
    [{ stop: many('a', 17) }, 'stop'],
    [{ stop: 'x'.repeat(4097) }, 'stop'],
    [{ stop: ['x'.repeat(4097)] }, 'stop'],
    [{ n: 2 }, 'n'],
    [{ n: 0 }, 'n'],
    [{ n: '1' }, 'n'],
    [{ logprobs: true }, 'logprobs'],
    [{ top_logprobs: 2 }, 'top_logprobs'],
    [{ response_format: { type: 'json_schema', json_schema: {} } }, 'response_format'],
    [{ response_format: { type: 'xml' } }, 'response_format'],
    [{ response_format: {} }, 'response_format'],
    [{ response_format: 'text' }, 'response_format'],
    [{ stream: 'true' }, 'stream'],
    [{ stream: 1 }, 'stream'],
    [{ stream_options: true }, 'stream_options'],
    [{ include_reasoning: 'no' }, 'include_reasoning'],
    [{ model: 5 }, 'model'],
    [{ tools: {} }, 'tools'],
    [{ tools: [weather, { type: 'retrieval' }] }, 'tools[1]'],
    [{ tools: [{ type: 'function', function: { name: '' } }] }, 'tools[0]'],
    [{ tools: [{ type: 'function', function: { name: 'f', parameters: [] } }] }, 'tools[0]'],
    [{ tools: [{ function: { name: 'f' } }] }, 'tools[0]'],
    [{ tools: ['f'] }, 'tools[0]'],
    [{ tool_choice: 'always' }, 'tool_choice'],
    [{ tool_choice: 5 }, 'tool_choice'],
    [{ tool_choice: { type: 'function' } }, 'tool_choice'],
    [{ tool_choice: { type: 'tool', function: { name: 'f' } } }, 'tool_choice'],
    [{ tools: [weather], tool_choice: { type: 'function', function: { name: 'other' } } }, 'tool_choice'],
    [{ tool_choice: { type: 'function', function: { name: 'f' } } }, 'tool_choice'],
    [{ chat_template_kwargs: [] }, 'chat_template_kwargs'],
    [{ chat_template_kwargs: { enable_thinking: 'no' } }, 'chat_template_kwargs.enable_thinking'],
    [{ chat_template_kwargs: { messages: [] } }, 'chat_template_kwargs'],
    [{ chat_template_kwargs: { tools: null } }, 'chat_template_kwargs'],
    [{ chat_template_kwargs: { add_generation_prompt: true } }, 'chat_template_kwargs'],
  ]
  for (const [body, param] of refused) {
    const error = refusal(() => chat(body))
    const name = JSON.stringify(body, (_, v) => (typeof v === 'bigint' ? String(v) : v)).slice(0, 100)
    t.match(error, { status: 400, type: 'invalid_request_error', param }, name)
    t.ok(error.message.startsWith(param.replace(/\[.*/, '').split('.')[0] ?? '?'), error.message)
  }
  t.equal(refusal(() => chat({ n: 2 })).message, 'n must be 1')
  for (const body of [[], 'x', 5, null]) t.equal(refusal(() => chatValidator.shape(body)).status, 400)
  t.end()
})

t.test('completions: what is refused', (t) => {
  const refused: [object, string][] = [
    [{ prompt: undefined }, 'prompt'],
    [{ prompt: null }, 'prompt'],
    [{ prompt: '' }, 'prompt'],
    [{ prompt: [] }, 'prompt'],
    [{ prompt: [''] }, 'prompt'],
    [{ prompt: [[]] }, 'prompt'],
    [{ prompt: ['a', 'b'] }, 'prompt'],
    [{ prompt: [[1], [2]] }, 'prompt'],
    [{ prompt: [1, 100] }, 'prompt'],
    [{ prompt: [-1] }, 'prompt'],
    [{ prompt: [1.5] }, 'prompt'],
    [{ prompt: [1, 'a'] }, 'prompt'],
    [{ prompt: [[1, 10n ** 20n]] }, 'prompt'],
    [{ prompt: {} }, 'prompt'],
    [{ echo: true }, 'echo'],
    [{ suffix: 'x' }, 'suffix'],
    [{ logprobs: 0 }, 'logprobs'],
    [{ logprobs: true }, 'logprobs'],
    [{ best_of: 2 }, 'best_of'],
    [{ n: 2 }, 'n'],
    [{ max_tokens: 0 }, 'max_tokens'],
  ]
  for (const [body, param] of refused)
    t.match(
      refusal(() => completion(body)),
      { status: 400, param },
      param,
    )
  t.end()
})

t.test('a wrong type is found before the model is looked at, a wrong value after', (t) => {
  const strict = createConfig({ values: { strictModel: true } })
  const open = (body: object) => {
    const given: unknown = { messages: [user], model: 'other', ...body }
    chatValidator.shape(given)
    readModel(given.model, strict)
  }
  t.equal(refusal(() => open({ temperature: 'hot' })).status, 400)
  t.equal(refusal(() => open({ messages: [{ role: 'user' }] })).status, 400)
  t.equal(refusal(() => open({ temperature: 99, n: 2, messages: [] })).status, 404)
  t.end()
})

t.test('the window and the limit of prompts', (t) => {
  const config = createConfig({ values: { maxPromptTokens: 50 } })
  t.equal(fitWindow({ maxTokens: 10 }, 50, 100, config, 'messages').maxTokens, 10)
  t.equal(fitWindow({ maxTokens: 80 }, 50, 100, config, 'messages').maxTokens, 50)
  const long = refusal(() => fitWindow({ maxTokens: 10 }, 51, 100, config, 'messages'))
  t.match(long, { status: 400, code: 'context_length_exceeded', param: 'messages' })
  t.match(long.message, /51.*50/)
  t.match(refusal(() => fitWindow({ maxTokens: 10 }, 40, 40, config, 'prompt')).message, /40.*39/)
  t.equal(fitWindow({ maxTokens: 10 }, 39, 40, config, 'prompt').maxTokens, 1)
  checkCount(Array(50), 100, config, 'messages')
  const crowd = refusal(() => checkCount(Array(51), 100, config, 'messages'))
  t.match(crowd, { status: 400, code: 'context_length_exceeded', param: 'messages' })
  t.match(crowd.message, /51.*50/)
  t.match(refusal(() => checkCount(Array(40), 40, config, 'messages')).message, /40.*39/)
  t.end()
})
