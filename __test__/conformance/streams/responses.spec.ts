import t from 'tap'
import { withoutIds } from './frames.js'
import { checkWholeResponse, readResponsesStream } from './responses.js'

type Data = Record<string, any>

const base = {
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status: 'in_progress',
  error: null,
  incomplete_details: null,
  instructions: null,
  metadata: {},
  model: 'm',
  output: [] as Data[],
  parallel_tool_calls: true,
  temperature: 1,
  tool_choice: 'auto',
  tools: [],
  top_p: 1,
  usage: null as Data | null,
}
const usage = {
  input_tokens: 3,
  input_tokens_details: { cached_tokens: 1 },
  output_tokens: 2,
  output_tokens_details: { reasoning_tokens: 1 },
  total_tokens: 5,
}
const reasoning = { id: 'rs_1', type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Hm, hm' }] }
const output = { type: 'output_text', text: 'Looking', annotations: [], logprobs: [] }
const message = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed', content: [output] }
const call = { id: 'fc_1', type: 'function_call', call_id: 'c1', name: 'f', arguments: '{"x":1}', status: 'completed' }
const custom = { id: 'ctc_1', type: 'custom_tool_call', call_id: 'c2', name: 'g', input: 'free' }
const items: Data[] = [reasoning, message, call, custom]
const completed = { ...base, status: 'completed', output: items, usage }

/** The stream of these items, cut into pieces of two characters, without sequence numbers. */
function events(last: Data = completed): Data[] {
  const pieces = (text: string) => text.match(/.{1,2}/g) ?? []
  const made: Data[] = [
    { type: 'response.created', response: base },
    { type: 'response.in_progress', response: base },
  ]
  for (const [output_index, item] of (last.output as Data[]).entries()) {
    const status = item.status === undefined ? {} : { status: 'in_progress' }
    const at = { item_id: item.id, output_index }
    const add = (type: string, fields: Data) => made.push({ type: `response.${type}`, ...fields })
    if (item.content) {
      add('output_item.added', { output_index, item: { ...item, ...status, content: [] } })
      for (const [content_index, part] of (item.content as Data[]).entries()) {
        const where = { ...at, content_index }
        const more = part.type === 'output_text' ? { logprobs: [] } : {}
        add('content_part.added', { ...where, part: { ...part, text: '' } })
        for (const delta of pieces(part.text)) add(`${part.type}.delta`, { ...where, ...more, delta })
        add(`${part.type}.done`, { ...where, ...more, text: part.text })
        add('content_part.done', { ...where, part })
      }
    } else {
      const field = item.type === 'function_call' ? 'arguments' : 'input'
      const kind = item.type === 'function_call' ? 'function_call_arguments' : 'custom_tool_call_input'
      add('output_item.added', { output_index, item: { ...item, ...status, [field]: '' } })
      for (const delta of pieces(item[field])) add(`${kind}.delta`, { ...at, delta })
      add(`${kind}.done`, { ...at, [field]: item[field], ...(field === 'arguments' ? { name: item.name } : {}) })
    }
    add('output_item.done', { output_index, item })
  }
  return [...made, { type: `response.${last.status}`, response: last }]
}

const send = (list: readonly Data[]) =>
  list.map((data, at) => `event: ${data.type}\ndata: ${JSON.stringify({ sequence_number: at, ...data })}\n\n`).join('')
const good = events()

t.test('what a stream says', async (t) => {
  const { response, comments } = readResponsesStream(`: keep-alive\n\n${send(good)}`)
  t.strictSame([response, comments], [completed, 1])
  t.strictSame(checkWholeResponse(response), completed)
  t.strictSame(withoutIds(response.output[2]), {
    type: call.type,
    name: 'f',
    arguments: call.arguments,
    status: 'completed',
  })

  const cut = { ...message, status: 'incomplete' }
  const incomplete = { ...completed, status: 'incomplete', output: [reasoning, cut] }
  const details = { incomplete_details: { reason: 'max_output_tokens' } }
  t.strictSame(readResponsesStream(send(events({ ...incomplete, ...details }))).response.output, [reasoning, cut])
  const error = { code: 'server_error', message: 'It broke.' }
  const failed = { ...completed, status: 'failed', output: [reasoning], error, usage: null }
  t.strictSame(readResponsesStream(send(events(failed))).response.error, error)
  const begun = good.slice(0, good.findIndex((data) => data.item?.type === 'message') + 3)
  t.ok(readResponsesStream(send([...begun, { type: 'response.failed', response: failed }])), 'an item may be open')
})

t.test('no event may be missing, come twice or change its place', async (t) => {
  const isDelta = (at: number) => String(good[at]?.type).endsWith('.delta')
  for (const at of good.keys()) {
    t.throws(() => readResponsesStream(send(good.toSpliced(at, 1))), `without ${at} ${good[at]?.type}`)
    t.throws(() => readResponsesStream(send(good.toSpliced(at, 0, good[at] ?? {}))), `twice ${at} ${good[at]?.type}`)
    if (at === 0 || (isDelta(at - 1) && isDelta(at) && good[at]?.delta === good[at - 1]?.delta)) continue
    const swapped = good.toSpliced(at - 1, 2, good[at] ?? {}, good[at - 1] ?? {})
    t.throws(() => readResponsesStream(send(swapped)), `${at} before ${at - 1}`)
  }
})

t.test('every field counts', async (t) => {
  for (const [at, data] of good.entries()) {
    for (const field of Object.keys(data)) {
      const rest = Object.fromEntries(Object.entries(data).filter(([name]) => name !== field))
      t.throws(() => readResponsesStream(send(good.toSpliced(at, 1, rest))), `${at} ${data.type} without ${field}`)
      if (typeof data[field] === 'number') {
        const other = { ...data, [field]: data[field] + 1 }
        t.throws(() => readResponsesStream(send(good.toSpliced(at, 1, other))), `${at} ${data.type}: ${field} + 1`)
      }
    }
    const more = { ...data, extra: 1 }
    t.throws(() => readResponsesStream(send(good.toSpliced(at, 1, more))), { message: /has a field extra/ })
  }
})

t.test('what is refused', async (t) => {
  const find = (type: string, nth = 0) =>
    good.flatMap((data, at) => (data.type === `response.${type}` ? [at] : []))[nth] ?? -1
  /** The good stream with other fields in one event. */
  const put = (at: number, fields: Data) => send(good.toSpliced(at, 1, { ...good[at], ...fields }))
  const last = good.length - 1
  const final = (fields: Data) => put(last, { response: { ...completed, ...fields } })
  const whole = (at: number, fields: Data) => final({ output: items.toSpliced(at, 1, { ...items[at], ...fields }) })
  const cases: [string, string, RegExp][] = [
    ['cut', send(good.slice(0, -1)), /the stream was cut/],
    ['[DONE]', send(good) + 'data: [DONE]\n\n', /not an event/],
    ['no event line', send(good).replace(/^event: .*\n/, ''), /not an event/],
    ['another name', send(good).replace('event: response.created', 'event: response.queued'), /type/],
    ['an unknown event', send(good.toSpliced(2, 0, { type: 'response.queued', response: base })), /unknown/],
    ['something after the end', send([...good, good[2] ?? {}]), /after the end/],
    ['two ends', send([...good, good[last] ?? {}]), /after the end/],
    ['a gap in the numbers', put(5, { sequence_number: 6 }), /sequence_number/],
    ['an empty delta', put(find('output_text.delta'), { delta: '' }), /delta is ""/],
    ['a delta of another item', put(find('output_text.delta'), { item_id: 'rs_1' }), /item_id/],
    ['a delta of another part', put(find('output_text.delta'), { content_index: 1 }), /content_index/],
    [
      'a delta of another kind',
      put(find('output_text.delta'), { type: 'response.reasoning_text.delta', logprobs: undefined }),
      /in a part output_text/,
    ],
    ['another whole text', put(find('output_text.done'), { text: 'Lookin' }), /text/],
    ['other whole arguments', put(find('function_call_arguments.done'), { arguments: '{}' }), /whole text/],
    ['another name when done', put(find('function_call_arguments.done'), { name: 'g' }), /name/],
    [
      'another part when done',
      put(find('content_part.done'), { part: { type: 'reasoning_text', text: 'Hm' } }),
      /text/,
    ],
    ['an item that is not empty', put(find('output_item.added', 2), { item: call }), /status completed/],
    ['other arguments at the end', put(find('output_item.done', 2), { item: { ...call, arguments: '{}' } }), /item/],
    ['another call id at the end', put(find('output_item.done', 2), { item: { ...call, call_id: 'c3' } }), /item/],
    [
      'a status that is not over',
      put(find('output_item.done', 1), { item: { ...message, status: 'in_progress' } }),
      /status/,
    ],
    [
      'an id of another kind',
      put(find('output_item.added', 1), { item: { ...message, id: 'fc_9', content: [], status: 'in_progress' } }),
      /id fc_9/,
    ],
    ['an unknown item', put(find('output_item.added', 1), { item: { ...message, type: 'news' } }), /type news/],
    ['output before it was made', put(1, { response: { ...base, output: items } }), /output/],
    ['another id', final({ id: 'resp_2' }), /: id/],
    ['another model', final({ model: 'n' }), /: model/],
    ['another order', final({ output: items.toReversed() }), /output/],
    ['an item lost', final({ output: items.slice(1) }), /output/],
    ['another final text', whole(1, { content: [{ ...output, text: 'Lookin' }] }), /output/],
    ['another final status', final({ status: 'incomplete' }), /status/],
    ['output_text', final({ output_text: 'Looking' }), /output_text/],
    ['no usage', final({ usage: null }), /usage is no object/],
    ['a wrong sum', final({ usage: { ...usage, total_tokens: 6 } }), /total_tokens/],
    [
      'more reused than there were',
      final({ usage: { ...usage, input_tokens_details: { cached_tokens: 4 } } }),
      /cached/,
    ],
    ['completed with an error', final({ error: { code: 'x', message: 'y' } }), /error/],
    ['completed, but incomplete', final({ incomplete_details: { reason: 'max_output_tokens' } }), /incomplete_details/],
  ]
  for (const [what, text, message] of cases) t.throws(() => readResponsesStream(text), { message }, what)
  const failed = { ...completed, status: 'failed', output: items }
  t.throws(
    () => readResponsesStream(send(events(failed))),
    { message: /error is no object/ },
    'failed without an error',
  )
  const halves = { ...completed, output: [{ ...message, status: 'incomplete' }] }
  t.throws(
    () => readResponsesStream(send(events(halves))),
    { message: /item 0 incomplete/ },
    'completed with half an item',
  )
  t.throws(() => checkWholeResponse({ ...completed, output: [{ ...call, extra: 1 }] }), {
    message: /has a field extra/,
  })
})
