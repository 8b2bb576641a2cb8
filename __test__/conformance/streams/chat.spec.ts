import t from 'tap'
import { readChatStream } from './chat.js'

const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' }
const chunk = (delta: object, finish_reason: string | null = null) => ({
  ...head,
  choices: [{ index: 0, delta, logprobs: null, finish_reason }],
})
const call = (index: number, id: string, text: string) => ({
  tool_calls: [{ index, id, type: 'function', function: { name: 'f', arguments: text } }],
})
const more = (index: number, text: string) => ({ tool_calls: [{ index, function: { arguments: text } }] })
const usage = {
  prompt_tokens: 3,
  completion_tokens: 2,
  total_tokens: 5,
  prompt_tokens_details: { cached_tokens: 1 },
  completion_tokens_details: { reasoning_tokens: 1 },
}
const error = { error: { message: 'm', type: 'server_error', param: null, code: null } }
const send = (chunks: readonly object[], end = 'data: [DONE]\n\n') =>
  chunks.map((value) => `data: ${JSON.stringify(value)}\n\n`).join('') + end

const good = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ reasoning_content: 'Hm' }),
  chunk({ content: 'Look' }),
  chunk({ content: 'ing' }),
  chunk(call(0, 'a', '{"x"')),
  chunk(more(0, ':1}')),
  chunk(call(1, 'b', '{}')),
  chunk({}, 'tool_calls'),
]
const withUsage = [...good.map((value) => ({ ...value, usage: null })), { ...head, choices: [], usage }]

t.test('what a stream says', async (t) => {
  const read = readChatStream(`: keep-alive\n\n${send(withUsage)}`, { includeUsage: true })
  t.strictSame(read, {
    id: 'chatcmpl-1',
    model: 'm',
    message: {
      role: 'assistant',
      content: 'Looking',
      reasoning_content: 'Hm',
      tool_calls: [
        { id: 'a', type: 'function', function: { name: 'f', arguments: '{"x":1}' } },
        { id: 'b', type: 'function', function: { name: 'f', arguments: '{}' } },
      ],
    },
    finishReason: 'tool_calls',
    usage,
    error: null,
    comments: 1,
  })
  t.strictSame(readChatStream(send(good)).usage, null)
  const cut = readChatStream(send([...good.slice(0, 3), error]))
  t.match([cut.message.content, cut.finishReason, cut.error?.type], ['Look', null, 'server_error'])
  t.equal(readChatStream(send([error])).error?.message, 'm')
})

/** Chunks with another in place of one of the good ones. */
const put = (at: number, value: object, count = 1) => good.toSpliced(at, count, value as (typeof good)[number])

t.test('what is refused', async (t) => {
  const cases: [string, string, RegExp][] = [
    ['cut', send(good).slice(0, -20), /empty line/],
    ['no [DONE]', send(good, ''), /\[DONE\]/],
    ['nothing at all', send([]), /an empty stream/],
    ['an event line', 'event: x\n' + send(good), /not an event/],
    ['two data lines', send(good).replace('\n\n', '\ndata: {}\n\n'), /not an event/],
    ['no JSON', 'data: {\n\n' + send(good), /no JSON/],
    ['an array', 'data: []\n\n' + send(good), /no object/],
    ['no finish', send(good.slice(0, -1)), /no finish_reason/],
    ['two finishes', send([...good, chunk({}, 'tool_calls')]), /after the finish/],
    ['text after the finish', send([...good, chunk({ content: 'x' })]), /after the finish/],
    ['another id', send(put(2, { ...good[2], id: 'other' })), /: id/],
    ['another model', send(put(2, { ...good[2], model: 'other' })), /: model/],
    ['another time', send(put(2, { ...good[2], created: 2 })), /: created/],
    ['another object', send(put(0, { ...good[0], object: 'chat.completion' })), /: object/],
    ['a field more', send(put(2, { ...good[2], extra: 1 })), /has a field extra/],
    ['a field less', send(put(2, { ...good[2], model: undefined })), /lacks model/],
    ['two choices', send(put(2, { ...head, choices: [good[2]?.choices[0], good[2]?.choices[0]] })), /2 choices/],
    ['another index', send(put(2, { ...head, choices: [{ ...good[2]?.choices[0], index: 1 }] })), /: index/],
    ['no role', send(good.slice(1)), /no role/],
    ['a second role', send(put(1, chunk({ role: 'assistant' }))), /a role/],
    ['another role', send(put(0, chunk({ role: 'user', content: '' }))), /no role/],
    ['an empty text', send(put(2, chunk({ content: '' }))), /content is empty/],
    ['a text that is none', send(put(2, chunk({ content: 1 }))), /content is no text/],
    ['an unknown delta', send(put(2, chunk({ words: 'x' }))), /a delta with words/],
    ['a call skipped', send(put(6, chunk(call(2, 'b', '{}')))), /a part of call 2/],
    ['a call gone back to', send(put(7, chunk(more(0, 'x')), 0)), /a part of call 0/],
    ['an id twice', send(put(6, chunk(call(1, 'a', '{}')))), /came before/],
    ['a call without a name', send(put(6, chunk(more(1, '{}')))), /lacks id/],
    ['arguments that are no JSON', send(good.toSpliced(5, 1)), /arguments is no JSON/],
    ['calls, but stop', send(put(7, chunk({}, 'stop'))), /finish_reason and calls/],
    ['tool_calls, but none', send(good.toSpliced(4, 3)), /finish_reason and calls/],
    ['an unknown finish', send(put(7, chunk({}, 'eos'))), /finish_reason eos/],
    ['usage unasked', send(withUsage), /usage/],
    ['an error after the finish', send([...good, error]), /an error after the finish/],
    ['something after an error', send([error, ...good]), /after the end/],
    ['an error of its own kind', send([{ error: { ...error.error, type: 'oops' } }]), /error of type oops/],
    ['an error with a stack', send([{ error: { ...error.error, stack: 'x' } }]), /has a field stack/],
  ]
  for (const [what, text, message] of cases) t.throws(() => readChatStream(text), { message }, what)

  const last = withUsage.length - 1
  const usages: [string, readonly object[], RegExp][] = [
    ['none', withUsage.slice(0, -1), /no usage/],
    ['before the finish', [withUsage[0] ?? {}, withUsage[last] ?? {}], /no choice/],
    [
      'a wrong sum',
      withUsage.toSpliced(last, 1, { ...head, choices: [], usage: { ...usage, total_tokens: 6 } }),
      /total/,
    ],
    [
      'more reused than there were',
      withUsage.toSpliced(last, 1, {
        ...head,
        choices: [],
        usage: { ...usage, prompt_tokens_details: { cached_tokens: 4 } },
      }),
      /cached_tokens/,
    ],
    ['not null before', [...good, withUsage[last] ?? {}], /lacks usage/],
    ['twice', [...withUsage, withUsage[last] ?? {}], /after the end/],
  ]
  for (const [what, chunks, message] of usages)
    t.throws(() => readChatStream(send(chunks), { includeUsage: true }), { message }, `usage: ${what}`)
})
