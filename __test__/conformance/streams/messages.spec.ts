import t from 'tap'
import { checkMessagesError, checkWholeMessage, readMessagesStream } from './messages.js'

type Data = Record<string, any>

const start = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [] as Data[],
  stop_reason: null as string | null,
  stop_sequence: null as string | null,
  usage: { input_tokens: 3, cache_read_input_tokens: 1, cache_creation_input_tokens: 0, output_tokens: 0 },
}
const delta = (index: number, fields: Data) => ({ type: 'content_block_delta', index, delta: fields })
const open = (index: number, content_block: Data) => ({ type: 'content_block_start', index, content_block })
const close = (index: number) => ({ type: 'content_block_stop', index })
const tool = { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }
const good: Data[] = [
  { type: 'message_start', message: start },
  { type: 'ping' },
  open(0, { type: 'thinking', thinking: '', signature: '' }),
  delta(0, { type: 'thinking_delta', thinking: 'Hm' }),
  delta(0, { type: 'signature_delta', signature: 's' }),
  close(0),
  open(1, { type: 'text', text: '' }),
  delta(1, { type: 'text_delta', text: 'Look' }),
  delta(1, { type: 'text_delta', text: 'ing' }),
  close(1),
  open(2, tool),
  delta(2, { type: 'input_json_delta', partial_json: '{"x":' }),
  delta(2, { type: 'input_json_delta', partial_json: '10000000000000000001}' }),
  close(2),
  { type: 'message_delta', delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { output_tokens: 9 } },
  { type: 'message_stop' },
]
const error = { type: 'error', error: { type: 'api_error', message: 'It broke.' }, request_id: 'req_1' }
const send = (list: readonly Data[]) =>
  list.map((data) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`).join('')
const put = (at: number, value: Data, count = 1) => send(good.toSpliced(at, count, value))

t.test('what a stream says', async (t) => {
  const { message, inputs, pings } = readMessagesStream(send(good))
  const content = [
    { type: 'thinking', thinking: 'Hm', signature: 's' },
    { type: 'text', text: 'Looking' },
    { ...tool, input: { x: Number('10000000000000000001') } },
  ]
  const whole = { ...start, content, stop_reason: 'tool_use', usage: { ...start.usage, output_tokens: 9 } }
  t.strictSame(message, whole)
  t.strictSame([inputs, pings], [['{"x":10000000000000000001}'], 1], 'digits are there as they came')
  t.strictSame(checkWholeMessage(message), whole)
  t.match(readMessagesStream(send([...good.slice(0, 8), error])), { message: null, error: error.error })
  t.match(readMessagesStream(send([{ type: 'ping' }, error])), { message: null, pings: 1 })
  t.strictSame(
    readMessagesStream(send([...good.slice(0, 11), close(2), ...good.slice(-2)])).message?.content[2],
    tool,
    'no arguments at all',
  )
  const text = [...good.slice(0, 11), delta(2, { type: 'input_json_delta', partial_json: '[1' }), ...good.slice(13)]
  t.match(readMessagesStream(send(text)).message?.content[2], { input: '[1' })
})

t.test('no event may be missing, come twice or change its place', async (t) => {
  const free = ['ping', 'content_block_delta']
  for (const [at, data] of good.entries()) {
    if (free.includes(data.type)) continue
    t.throws(() => readMessagesStream(send(good.toSpliced(at, 1))), `without ${at} ${data.type}`)
    t.throws(() => readMessagesStream(put(at, data, 0)), `twice ${at} ${data.type}`)
    const before = good[at - 1]
    if (!before || before.type === 'ping') continue
    t.throws(() => readMessagesStream(send(good.toSpliced(at - 1, 2, data, before))), `${at} before ${at - 1}`)
  }
})

t.test('every field counts', async (t) => {
  for (const [at, data] of good.entries()) {
    for (const field of Object.keys(data)) {
      const rest = Object.fromEntries(Object.entries(data).filter(([name]) => name !== field))
      t.throws(() => readMessagesStream(put(at, rest)), `${at} ${data.type} without ${field}`)
    }
    t.throws(() => readMessagesStream(put(at, { ...data, extra: 1 })), `${at} ${data.type} with more`)
    if ('index' in data)
      t.throws(() => readMessagesStream(put(at, { ...data, index: data.index + 1 })), { message: /index/ })
  }
})

t.test('what is refused', async (t) => {
  const stop = (fields: Data, calls = true) =>
    send([
      ...good.slice(0, calls ? 14 : 10),
      { ...good[14], delta: { ...good[14]?.delta, ...fields } },
      ...good.slice(15),
    ])
  const begin = (fields: Data) => put(0, { type: 'message_start', message: { ...start, ...fields } })
  const cases: [string, string, RegExp][] = [
    ['nothing at all', '', /the stream was cut/],
    ['cut', send(good.slice(0, -1)), /the stream was cut/],
    ['cut in an event', send(good).slice(0, -2), /empty line/],
    ['[DONE]', send(good) + 'data: [DONE]\n\n', /not an event/],
    ['a comment', ': keep-alive\n\n' + send(good), /comment/],
    ['no event line', send(good).replace(/^event: .*\n/, ''), /not an event/],
    ['another name', send(good).replace('event: ping', 'event: pong'), /type/],
    ['an unknown event', put(1, { type: 'pong' }), /unknown/],
    ['a ping after the end', send([...good, { type: 'ping' }]), /after the end/],
    ['an error after the end', send([...good, error]), /after the end/],
    ['something after an error', send([error, ...good]), /after the end/],
    ['an error of its own kind', send([{ ...error, error: { type: 'oops', message: 'x' } }]), /type oops/],
    ['an error with a stack', send([{ ...error, error: { ...error.error, stack: 'x' } }]), /has a field stack/],
    ['content at the start', begin({ content: [tool] }), /content/],
    ['an end at the start', begin({ stop_reason: 'end_turn' }), /stop_reason/],
    ['another role', begin({ role: 'user' }), /role/],
    ['an id of another kind', begin({ id: 'resp_1' }), /id resp_1/],
    ['no count of the prompt', begin({ usage: { output_tokens: 0 } }), /input_tokens/],
    ['a count that is none', begin({ usage: { ...start.usage, output_tokens: -1 } }), /output_tokens/],
    ['a block that is not empty', put(6, open(1, { type: 'text', text: 'x' })), /not empty/],
    ['a block with nothing in it', send(good.toSpliced(7, 2)), /an empty block/],
    ['an unknown block', put(6, open(1, { type: 'image' })), /a block image/],
    ['a delta of another kind', put(7, delta(1, { type: 'thinking_delta', thinking: 'x' })), /in a block text/],
    ['an empty delta', put(7, delta(1, { type: 'text_delta', text: '' })), /text is ""/],
    ['thinking after the signature', put(5, good[3] ?? {}, 0), /after the signature/],
    ['an id twice', put(14, open(3, tool), 0), /came before/],
    ['a block after message_delta', put(15, open(3, tool), 0), /after message_delta/],
    ['no reason', stop({ stop_reason: null }), /stop_reason/],
    ['an unknown reason', stop({ stop_reason: 'eos' }), /stop_reason eos/],
    ['calls, but end_turn', stop({ stop_reason: 'end_turn' }), /after 1 calls/],
    ['tool_use, but no call', stop({}, false), /after 0 calls/],
    ['a sequence, but another reason', stop({ stop_reason: 'end_turn', stop_sequence: 'x' }, false), /stop_sequence/],
    ['stop_sequence, but none', stop({ stop_reason: 'stop_sequence' }, false), /stop_sequence/],
  ]
  for (const [what, text, message] of cases) t.throws(() => readMessagesStream(text), { message }, what)
  t.throws(() => checkMessagesError({ error: error.error, request_id: null }), { message: /type/ })
  t.throws(() => checkWholeMessage({ ...start, stop_reason: 'tool_use' }), { message: /after 0 calls/ })
})
