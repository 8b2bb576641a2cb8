import fc from 'fast-check'
import t from 'tap'
import { chatRequestSchema } from '../../src/protocols/chat/schema.js'
import { completionRequestSchema } from '../../src/protocols/completions/schema.js'
import { parseEvents, serve } from '../helpers/http.js'
import { scriptedModel } from '../helpers/scripted-model.js'

const model = await scriptedModel(() => 'Hm.</think>Yes <tool_call>{"name": "f"}</tool_call>')

const nasty = fc.constantFrom('__proto__', 'constructor', '<|im_end|>', '</think>', '\u0000', '\ud800', '{{ x }}', '')
const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 20 }), nasty)
const anything = fc.oneof(
  { maxDepth: 3 },
  fc.jsonValue({ maxDepth: 3 }),
  text,
  fc.dictionary(fc.oneof(text, fc.constantFrom('type', 'function', 'name', 'text')), fc.jsonValue()),
  fc.constantFrom(1, 0, -1, 0.5, 1e308, 2 ** 60, true, false, null),
)
/** A sensible value, or now and then anything at all. */
const mostly = <T>(sensible: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 15, arbitrary: sensible }, { weight: 1, arbitrary: anything })

const part = fc.record({ type: mostly(fc.constantFrom('text', 'input_text')), text: mostly(text) })
const toolCall = fc.record(
  { id: text, type: fc.constant('function'), function: fc.record({ name: text, arguments: mostly(text) }) },
  { requiredKeys: ['function'] },
)
const message = fc.record(
  {
    role: mostly(fc.constantFrom('system', 'developer', 'user', 'assistant', 'tool')),
    content: mostly(fc.oneof({ weight: 4, arbitrary: text }, fc.array(part, { maxLength: 2 }))),
    reasoning_content: fc.oneof(text, fc.constant(null)),
    tool_calls: mostly(fc.array(toolCall, { maxLength: 2 })),
    tool_call_id: text,
    name: anything,
  },
  { requiredKeys: ['role', 'content'] },
)
const tool = fc.record({
  type: fc.constant('function'),
  function: fc.record({
    name: text,
    description: mostly(text),
    parameters: mostly(fc.dictionary(text, fc.jsonValue())),
  }),
})

/** Bodies that are right in most places: each field absent, mostly sensible, or anything at all. */
function bodies(fields: readonly string[], sensible: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<object> {
  const noise = fc.dictionary(fc.constantFrom(...fields, '__proto__', 'unknown'), anything, { maxKeys: 1 })
  return fc.tuple(fc.record(sensible, { requiredKeys: [] }), noise).map(([body, extra]) => ({ ...body, ...extra }))
}

const sampling = {
  temperature: fc.double({ min: 0, max: 2, noNaN: true }),
  top_p: fc.constantFrom(0.1, 1),
  top_k: fc.integer({ min: -1, max: 500 }),
  max_tokens: fc.integer({ min: 1, max: 50 }),
  seed: fc.integer(),
  stop: fc.oneof(text, fc.array(text, { maxLength: 3 })),
  stream: fc.boolean(),
}
const chatOptions = bodies(Object.keys(chatRequestSchema['properties'] as object), {
  ...sampling,
  tools: fc.array(tool, { maxLength: 2 }),
  chat_template_kwargs: fc.record({ enable_thinking: fc.boolean(), extra: anything }, { requiredKeys: [] }),
})
const chatBody = fc
  .tuple(fc.array(message, { minLength: 1, maxLength: 3 }), chatOptions)
  .map(([messages, options]) => ({ messages, ...options }))
const completionBody = bodies(Object.keys(completionRequestSchema['properties'] as object), {
  ...sampling,
  prompt: fc.oneof(
    text,
    fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 5 }),
    fc.array(text, { maxLength: 2 }),
  ),
})

t.test('whatever the body, the answer is right or the client’s mistake, in the right shape', async (t) => {
  const { post, state } = await serve(t, model)
  const statuses = new Map<number, number>()
  const check = async (path: string, body: object): Promise<void> => {
    const res = await post(path, body)
    const answer = await res.text()
    statuses.set(res.status, (statuses.get(res.status) ?? 0) + 1)
    if (res.status === 200 && res.headers.get('content-type')?.startsWith('text/event-stream')) {
      const { events, done } = parseEvents(answer)
      if (!done || events.some((event) => 'error' in event)) throw new Error(answer)
    } else if (res.status === 200) {
      if (JSON.parse(answer).choices.length !== 1) throw new Error(answer)
    } else {
      const { error, ...rest } = JSON.parse(answer)
      const shape = Object.keys(error).join() === 'message,type,param,code' && Object.keys(rest).length === 0
      if (res.status !== 400 || !shape || error.type !== 'invalid_request_error')
        throw new Error(`${res.status} ${answer}`)
    }
  }
  await fc.assert(
    fc.asyncProperty(chatBody, (body) => check('/v1/chat/completions', body)),
    { numRuns: 200 },
  )
  await fc.assert(
    fc.asyncProperty(completionBody, (body) => check('/v1/completions', body)),
    { numRuns: 100 },
  )
  t.comment(JSON.stringify([...statuses]))
  t.ok((statuses.get(200) ?? 0) > 10 && (statuses.get(400) ?? 0) > 10, 'both kinds were seen')
  t.same([state.queue.active, state.queue.depth], [0, 0])
})
