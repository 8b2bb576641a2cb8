import { deepEqual } from 'node:assert/strict'
import fc from 'fast-check'
import type OpenAI from 'openai'
import t from 'tap'
import { collectAnswer } from '../../src/chat/collect.js'
import { ChatParser } from '../../src/chat/parser.js'
import type { ChatEvent } from '../../src/chat/types.js'
import { createConfig } from '../../src/config.js'
import { responseAnswer } from '../../src/protocols/responses/answer.js'
import { readEcho, readPrompt, readResponse } from '../../src/protocols/responses/read.js'
import { countValidator, responseValidator } from '../../src/protocols/responses/schema.js'
import type { OutputItem, ResponseUsage, WireEvent, WireResponse } from '../../src/protocols/responses/types.js'
import { ApiError } from '../../src/wire/errors.js'
import { withoutIds } from '../conformance/streams/frames.js'
import { checkWholeResponse, readResponsesStream } from '../conformance/streams/responses.js'
import { cutAt, cuts } from '../helpers/split.js'

type Theirs = OpenAI.Responses.Response
/** Fields that are checked elsewhere, or repeat what was sent. */
type Wide =
  'output' | 'usage' | 'tools' | 'tool_choice' | 'text' | 'reasoning' | 'metadata' | 'truncation' | 'service_tier'

/** Our wire types are theirs: checked by the compiler. */
export const assignable = {
  response: (value: WireResponse) => value satisfies Omit<Pick<Theirs, keyof Theirs & keyof WireResponse>, Wide>,
  usage: (value: ResponseUsage) => value satisfies OpenAI.Responses.ResponseUsage,
  item: (value: OutputItem) => value.type satisfies OpenAI.Responses.ResponseOutputItem['type'],
  event: (value: WireEvent) => value.type satisfies OpenAI.Responses.ResponseStreamEvent['type'],
}

const defaults = createConfig()

function read(body: object) {
  const given: unknown = { input: 'Hi', ...body }
  responseValidator.shape(given)
  responseValidator.rules(given)
  return readResponse(given, defaults)
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

const user = { role: 'user', content: 'Hi' }
const weather = { type: 'function', name: 'get_weather', parameters: { type: 'object' }, strict: false }
const call = {
  type: 'function_call',
  id: 'fc_1',
  call_id: 'c1',
  name: 'get_weather',
  arguments: '{}',
  status: 'completed',
}
const output = { type: 'function_call_output', call_id: 'c1', output: '31' }
const reasoning = {
  type: 'reasoning',
  id: 'rs_1',
  summary: [],
  content: [{ type: 'reasoning_text', text: 'Hm' }],
  encrypted_content: null,
}
const said = {
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'Looking', annotations: [], logprobs: [] }],
}
const chatCall = (id: string, name: string, text: string) => ({
  id,
  type: 'function',
  function: { name, arguments: text },
})

t.test('the conversation that input is', (t) => {
  const cases: [string, unknown, object[]][] = [
    ['a text', 'Hi', [user]],
    ['an empty text', '', [{ role: 'user', content: '' }]],
    [
      'parts, joined',
      [
        {
          role: 'developer',
          content: [
            { type: 'input_text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
        { type: 'message', role: 'user', id: 'msg_x', content: 'Hi' },
        { role: 'assistant', content: [{ type: 'refusal', refusal: 'No' }], phase: 'commentary' },
        { type: null, role: 'user', content: [] },
      ],
      [{ role: 'developer', content: 'ab' }, user, { role: 'assistant', content: 'No' }, { role: 'user', content: '' }],
    ],
    [
      'reasoning, a message and calls are one turn, whatever the order of message and calls',
      [user, reasoning, call, { ...call, call_id: 'c2', namespace: 'n' }, said, output, { ...output, call_id: 'c2' }],
      [
        user,
        {
          role: 'assistant',
          content: 'Looking',
          reasoning_content: 'Hm',
          tool_calls: [chatCall('c1', 'get_weather', '{}'), chatCall('c2', 'get_weather', '{}')],
        },
        { role: 'tool', tool_call_id: 'c1', content: '31' },
        { role: 'tool', tool_call_id: 'c2', content: '31' },
      ],
    ],
    [
      'two messages of the assistant without calls are two turns; reasoning begins one',
      [user, said, said, reasoning, said],
      [
        user,
        { role: 'assistant', content: 'Looking' },
        { role: 'assistant', content: 'Looking' },
        { role: 'assistant', content: 'Looking', reasoning_content: 'Hm' },
      ],
    ],
    [
      'text on both sides of a call is one content, as a chat has it',
      [user, said, call, said, output],
      [
        user,
        { role: 'assistant', content: 'LookingLooking', tool_calls: [chatCall('c1', 'get_weather', '{}')] },
        { role: 'tool', tool_call_id: 'c1', content: '31' },
      ],
    ],
    [
      'custom calls, and references to reasoning that nobody keeps',
      [
        user,
        { type: 'item_reference', id: 'rs_9' },
        { type: 'custom_tool_call', call_id: 'c1', name: 'sh', input: 'ls "x"' },
        { type: 'custom_tool_call_output', call_id: 'c1', output: [{ type: 'input_text', text: 'a' }] },
      ],
      [
        user,
        { role: 'assistant', content: null, tool_calls: [chatCall('c1', 'sh', '{"input":"ls \\"x\\""}')] },
        { role: 'tool', tool_call_id: 'c1', content: 'a' },
      ],
    ],
    [
      'a picture that a tool gave is named as left out',
      [
        user,
        call,
        {
          ...output,
          output: [
            { type: 'input_image', image_url: 'data:x', detail: 'high' },
            { type: 'input_text', text: '.' },
          ],
        },
      ],
      [
        user,
        { role: 'assistant', content: null, tool_calls: [chatCall('c1', 'get_weather', '{}')] },
        { role: 'tool', tool_call_id: 'c1', content: '[image left out: this model reads text only].' },
      ],
    ],
  ]
  for (const [name, input, messages] of cases) {
    t.strictSame(read({ input }).params.messages, messages, name)
    t.strictSame(
      read({ input, instructions: 'Be kind.' }).params.messages,
      [{ role: 'system', content: 'Be kind.' }, ...messages],
      name,
    )
  }
  t.end()
})

t.test('fields, and what they become', (t) => {
  t.match(read({}).params, { maxTokens: 4096, temperature: 0.6, topP: 0.95, topK: 20, enableThinking: true })
  t.equal(read({ max_output_tokens: 7, max_tokens: 5 }).params.maxTokens, 7)
  t.equal(read({ reasoning: { effort: 'none' } }).params.enableThinking, false)
  t.equal(read({ reasoning: { effort: 'high', summary: 'auto' } }).params.enableThinking, true)
  t.equal(read({ text: {} }).params.constraint, undefined)
  t.strictSame(read({ text: { format: { type: 'json_object' } } }).params.constraint, { type: 'json' })
  const schema = { type: 'object' }
  t.strictSame(read({ text: { format: { type: 'json_schema', name: 'x', strict: true, schema } } }).params.constraint, {
    type: 'json_schema',
    schema,
  })
  t.strictSame(read({ tools: [{ ...weather, strict: true }] }).params.strictTools, ['get_weather'])
  const nulls = Object.fromEntries(
    (
      'model instructions tools tool_choice reasoning text chat_template_kwargs previous_response_id conversation truncation ' +
      'parallel_tool_calls max_output_tokens temperature top_p top_k repetition_penalty seed include_reasoning stream ' +
      'stream_options store metadata include service_tier safety_identifier prompt_cache_key user prompt background top_logprobs'
    )
      .split(' ')
      .map((name) => [name, null]),
  )
  t.strictSame(read(nulls), read({}))
  t.strictSame(read({ client_metadata: { a: 'b' }, max_tool_calls: 'x', stop: 5, brand_new: {} }), read({}))
  t.end()
})

t.test('tools and the choice among them', (t) => {
  const custom = {
    type: 'custom',
    name: 'sh',
    description: 'A shell.',
    format: { type: 'grammar', syntax: 'lark', definition: 'x' },
  }
  const tools = [
    weather,
    custom,
    { type: 'web_search', external_web_access: false },
    { type: 'namespace', name: 'n', tools: [] },
  ]
  const functions = [
    { type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } },
    {
      type: 'function',
      function: {
        name: 'sh',
        description: 'A shell.',
        parameters: {
          type: 'object',
          properties: { input: { type: 'string', description: 'Text of this grammar (lark):\nx' } },
          required: ['input'],
        },
      },
    },
  ]
  const all = read({ tools })
  t.strictSame(all.params.tools, functions)
  t.strictSame([...all.tools.customTools, ...all.tools.leftOut], ['sh', 'web_search', 'namespace'])
  t.equal(read({ tools: [{ type: 'mcp' }] }).params.tools, undefined)
  const choices: [unknown, object[], unknown][] = [
    ['auto', functions, undefined],
    ['none', functions, 'none'],
    ['required', functions, 'required'],
    [
      { type: 'function', name: 'get_weather' },
      [functions[0]!],
      { type: 'function', function: { name: 'get_weather' } },
    ],
    [{ type: 'custom', name: 'sh' }, [functions[1]!], { type: 'function', function: { name: 'sh' } }],
    [
      { type: 'allowed_tools', mode: 'required', tools: [{ type: 'custom', name: 'sh' }, { type: 'web_search' }] },
      [functions[1]!],
      'required',
    ],
  ]
  for (const [choice, shown, toolChoice] of choices) {
    const { params } = read({ tools, tool_choice: choice })
    t.strictSame([params.tools, params.toolChoice], [shown, toolChoice], JSON.stringify(choice))
  }
  t.end()
})

t.test('what is refused names the field', (t) => {
  const cases: [object, string, RegExp?][] = [
    [{ input: null }, 'input'],
    [{ input: [] }, 'input', /empty/],
    [
      { input: [user, { type: 'web_search_call', id: 'ws_1' }] },
      'input[1]',
      /input\[1\]\.type must be one of "message"/,
    ],
    [{ input: [{ type: 'item_reference', id: 'msg_1' }] }, 'input[0]', /store: false/],
    [{ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] }, 'input[0]', /text only/],
    [{ input: [{ role: 'user' }] }, 'input[0]', /content is missing/],
    [{ input: [{ role: 'user', content: null }] }, 'input[0]'],
    [{ input: [{ role: 'bot', content: 'x' }] }, 'input[0]', /role/],
    [{ input: [{ content: 'x' }] }, 'input[0]', /role is missing/],
    [{ input: [user, { ...call, arguments: {} }] }, 'input[1]', /arguments must be a string/],
    [{ input: [user, { ...call, call_id: undefined }] }, 'input[1]', /call_id/],
    [{ input: [{ ...output, output: 5 }] }, 'input[0]', /output/],
    [{ input: [5] }, 'input[0]'],
    [{ tools: [{ name: 'x' }] }, 'tools[0]'],
    [{ tools: [{ type: 'function' }] }, 'tools[0]', /name is missing/],
    [{ tools: [{ ...weather, parameters: 'x' }] }, 'tools[0]'],
    [{ tool_choice: 'any' }, 'tool_choice'],
    [{ tool_choice: { type: 'web_search_preview' } }, 'tool_choice'],
    [{ tools: [weather], tool_choice: { type: 'function', name: 'f' } }, 'tool_choice', /"f"/],
    [{ tool_choice: { type: 'allowed_tools', tools: [{ type: 'function', name: 'f' }] } }, 'tool_choice', /"f"/],
    [{ previous_response_id: 'resp_1' }, 'previous_response_id', /kept/],
    [{ conversation: 'conv_1' }, 'conversation', /kept/],
    [{ prompt: { id: 'x' } }, 'prompt'],
    [{ background: true }, 'background'],
    [{ top_logprobs: 2 }, 'top_logprobs'],
    [{ max_output_tokens: 0 }, 'max_output_tokens'],
    [{ temperature: '1' }, 'temperature'],
    [{ text: { format: { type: 'xml' } } }, 'text.format'],
    [{ text: { format: { type: 'json_schema' } } }, 'text.format', /schema is missing/],
    [{ chat_template_kwargs: { messages: [] } }, 'chat_template_kwargs'],
  ]
  for (const [body, param, message = /./] of cases) {
    const error = refusal(() => read(body))
    t.match(error, { status: 400, param, message }, JSON.stringify(body))
  }
  t.equal(refusal(() => read({ previous_response_id: 'x' })).code, 'previous_response_not_found')
  t.end()
})

t.test('counting reads what shapes the prompt, and nothing else', (t) => {
  const count = (body: object) => {
    countValidator.shape(body)
    countValidator.rules(body)
    return readPrompt(body, defaults).prompt
  }
  t.strictSame(count({ input: 'Hi', max_output_tokens: 'x' }).messages, [user])
  t.strictSame(count({ instructions: 'S', input: null }).messages, [{ role: 'system', content: 'S' }])
  t.equal(refusal(() => count({})).param, 'input')
  t.end()
})

const customTools = new Set(['sh'])

async function* replay(events: readonly ChatEvent[]): AsyncGenerator<ChatEvent> {
  yield* events
}

/** The events of an answer with this raw output, which comes in these pieces. */
function events(pieces: readonly string[], reason: 'stop' | 'length'): ChatEvent[] {
  const parser = new ChatParser({ thinking: true })
  const parts = [...pieces.flatMap((piece) => parser.push(piece)), ...parser.end()]
  const usage = { promptTokens: 5, completionTokens: 9, cachedTokens: 2, reasoningTokens: 1 }
  return [
    ...parts,
    { type: 'finish', reason: reason === 'stop' && parser.toolCalls > 0 ? 'tool_calls' : reason, usage },
  ]
}

const echo = () => {
  const { params } = read({})
  return readEcho({ input: 'Hi' }, 'm', params)
}

const rawOutput = fc
  .array(
    fc.constantFrom(
      'Hm',
      '\n',
      ' ',
      '</think>',
      'Grüße 🍁',
      '<tool_call>{"name": "f"}</tool_call>',
      '<tool_call>',
      '{',
      'a b',
    ) as fc.Arbitrary<string>,
    { maxLength: 10 },
  )
  .map((words) =>
    words.join('').replace('a b', '</think><tool_call>{"name": "sh", "arguments": {"input": "ls"}}</tool_call>'),
  )

t.test('streamed and collected answers agree, wherever the output is cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      rawOutput,
      cuts,
      fc.constantFrom<'stop' | 'length'>('stop', 'length'),
      fc.boolean(),
      async (raw, positions, reason, includeReasoning) => {
        const options = { includeReasoning, customTools }
        const all = events(cutAt(raw, positions), reason)
        const whole = responseAnswer(echo(), options).whole(await collectAnswer(replay(events([raw], reason))))
        checkWholeResponse(JSON.parse(JSON.stringify(whole)))
        const { stream } = responseAnswer(echo(), options)
        const text = stream.start() + all.map((event) => stream.push(event)).join('') + stream.end()
        const { response } = readResponsesStream(text)
        deepEqual(withoutIds(response), withoutIds(whole))
      },
    ),
    { numRuns: 500 },
  )
})

t.test('an answer that breaks after any event is a stream that failed, in order', async () => {
  fc.assert(
    fc.property(rawOutput, cuts, fc.nat(40), (raw, positions, after) => {
      const { stream } = responseAnswer(echo(), { includeReasoning: true, customTools })
      const some = events(cutAt(raw, positions), 'stop').slice(0, -1).slice(0, after)
      const before = after === 0 ? '' : stream.start() + some.map((event) => stream.push(event)).join('')
      const { response } = readResponsesStream(before + stream.fail(new ApiError(500, 'It broke.')))
      deepEqual([response.status, response.error], ['failed', { code: 'server_error', message: 'It broke.' }])
    }),
  )
})

t.test('the items of an answer', async (t) => {
  const items = async (raw: string, reason: 'stop' | 'length' = 'stop', includeReasoning = true) => {
    const answer = responseAnswer(echo(), { includeReasoning, customTools })
    return answer.whole(await collectAnswer(replay(events([raw], reason)))) as WireResponse
  }
  const both = await items(
    'Hm</think>Yes <tool_call>{"name": "f", "arguments": {"n": 12345678901234567890}}</tool_call>',
  )
  t.match(both, {
    status: 'completed',
    usage: { input_tokens: 5, input_tokens_details: { cached_tokens: 2 }, output_tokens: 9, total_tokens: 14 },
    output: [
      { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'Hm' }] },
      { type: 'message', content: [{ type: 'output_text', text: 'Yes' }] },
      { type: 'function_call', call_id: /^call_/, name: 'f', arguments: '{"n": 12345678901234567890}' },
    ],
  })
  const custom = await items('</think><tool_call>{"name": "sh", "arguments": {"input": "ls"}}</tool_call>')
  t.match(custom.output, [{ type: 'custom_tool_call', id: /^ctc_/, name: 'sh', input: 'ls' }])
  const wrong = await items('</think><tool_call>{"name": "sh", "arguments": {"cmd": "ls"}}</tool_call>')
  t.match(wrong.output, [{ input: '{"cmd": "ls"}' }], 'a call that is not in form is not lost')
  const cut = await items('Hm, hm', 'length')
  t.match(cut, { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, completed_at: null })
  t.match(cut.output, [{ type: 'reasoning', status: 'incomplete' }])
  t.equal(cut.output.length, 1)
  const silent = await items('Hm</think>')
  t.match(silent.output, [{ type: 'reasoning' }, { type: 'message', content: [{ text: '' }], status: 'completed' }])
  t.match((await items('Hm</think>Yes', 'stop', false)).output, [{ type: 'message' }])
})

t.test('the response repeats its request, whatever the numbers in it', (t) => {
  const tools = [{ ...weather, parameters: { maximum: 2n ** 64n } }, { type: 'mcp' }]
  const body = { input: 'Hi', tools, metadata: { a: 'b' }, user: 'u', text: { verbosity: 'low' }, temperature: 0 }
  const said = readEcho(body, 'm', read(body).params)
  t.match(JSON.parse(JSON.stringify(said)), {
    model: 'm',
    tools: [{ name: 'get_weather', parameters: { maximum: 2 ** 64 } }, { type: 'mcp' }],
    metadata: { a: 'b' },
    user: 'u',
    text: { format: { type: 'text' }, verbosity: 'low' },
    temperature: 0,
    max_output_tokens: null,
  })
  t.end()
})
