import { deepEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { ChatParser } from '../../src/chat/parser.js'
import type { ChatPart } from '../../src/chat/types.js'
import { cutAt, cuts, fragments } from '../helpers/split.js'

interface Answer {
  reasoning: string
  content: string
  calls: [string, string][]
}

/** What a reader that joins the parts ends up with. */
function answer(parts: readonly ChatPart[]): Answer {
  const all: Answer = { reasoning: '', content: '', calls: [] }
  for (const part of parts) {
    if (part.type === 'tool_call') all.calls.push([part.call.function.name, part.call.function.arguments])
    else all[part.type] += part.text
  }
  return all
}

function parse(pieces: Iterable<string>, thinking = true): Answer {
  const parser = new ChatParser({ thinking })
  const parts = [...pieces].flatMap((piece) => parser.push(piece))
  return answer([...parts, ...parser.end()])
}

const F = '{"name": "f", "arguments": {"a": 1}}'
const f: [string, string] = ['f', '{"a": 1}']
const block = (body: string): string => `<tool_call>${body}</tool_call>`

t.test('reasoning', async (t) => {
  const cases: [raw: string, reasoning: string, content: string][] = [
    ['', '', ''],
    ['a thought', 'a thought', ''],
    ['a\n</think>\n\nb', 'a', 'b'],
    ['\n\n a \n\n</think>b', ' a ', 'b'],
    ['<think>\na</think>b', 'a', 'b'],
    ['<think><think>a</think>b', '<think>a', 'b'],
    [' <think>a</think>b', ' <think>a', 'b'],
    ['a</think>b<think>c</think>d', 'a', 'b<think>c</think>d'],
    [`a${block(F)}</think>b`, `a${block(F)}`, 'b'],
    ['a\n</thi', 'a\n</thi', ''],
    ['<thin', '<thin', ''],
    ['</think>', '', ''],
    ['a</think>\n \n', 'a', ''],
    ['a</think>\n  b \n', 'a', '  b \n'],
  ]
  for (const [raw, reasoning, content] of cases) {
    t.same(parse([raw]), { reasoning, content, calls: [] }, JSON.stringify(raw))
  }
  t.same(parse(['<think>a</think>b'], false), { reasoning: '', content: '<think>a</think>b', calls: [] })
})

t.test('tool calls', async (t) => {
  const cases: [raw: string, calls: [string, string][], content: string][] = [
    [block(F), [f], ''],
    [block(`\n${F}\n`), [f], ''],
    [`So: \n${block(F)}\n ${block(F)} \n`, [f, f], 'So:'],
    [`${block(F)}\n\nDone. `, [f], 'Done. '],
    [`a ${block(F)} b ${block('no')} c`, [f], `ab ${block('no')} c`],
    // Several objects, commas, the opening marker again: habits of the model.
    [block(`${F}\n${F}, ${F}`), [f, f, f], ''],
    [block(`<tool_call>\n${F}\n<tool_call>${F}`), [f, f], ''],
    // What the arguments can be.
    [block('{"name":"f"}'), [['f', '{}']], ''],
    [block('{"name":"f","arguments":null}'), [['f', '{}']], ''],
    [block('{"name":"f","arguments":""}'), [['f', '{}']], ''],
    [
      block('{"arguments":{"n": 12345678901234567890, "u":"ü\\u00e9" },"name":"f"}'),
      [['f', '{"n": 12345678901234567890, "u":"ü\\u00e9" }']],
      '',
    ],
    [block('{"name":"f","arguments":"{\\"a\\": 1}"}'), [f], ''],
    [block('{"name":"f","arguments":"not json"}'), [['f', '"not json"']], ''],
    [block('{"name":"f","parameters":{"a": 1}}'), [f], ''],
    [block('{"name":"f","arguments":{},"parameters":{"a": 1}}'), [['f', '{}']], ''],
    [block('{"name":"g","name":"f","x":[{"name":"no"}, "]}"],"arguments":{"a": 1}}'), [f], ''],
    // A closing marker inside a string belongs to the string.
    [block('{"name":"f","arguments":{"s":"</tool_call>"}}'), [['f', '{"s":"</tool_call>"}']], ''],
    [block('{"name":"f","arguments":{"s":"\\"</tool_call>"}}'), [['f', '{"s":"\\"</tool_call>"}']], ''],
  ]
  for (const [raw, calls, content] of cases) t.same(parse([raw], false), { reasoning: '', content, calls }, raw)
})

t.test('blocks that are no calls stay content, whole', async (t) => {
  const bodies = [
    ...['', '\n', ',', '{}', '{"name":""}', '{"name":5}', '{"name":"f"', '{"name":"f"}}', `${F} prose`, `prose ${F}`],
    ...[`[${F}]`, `{"name":"f","arguments":{"a":01}}`, '{"name":"f","arguments":tru}', "{'name':'f'}", '{"name":"f",}'],
    ...[
      '{"name":"f" "arguments":{}}',
      '{"name":"f\n"}',
      '{"name":"\\x"}',
      `${F}{"name":""}`,
      '<think>',
      '{"name":"f"]',
    ],
  ]
  for (const body of bodies) {
    t.same(parse([` ${block(body)}\n`], false), { reasoning: '', content: ` ${block(body)}\n`, calls: [] }, body)
    t.same(
      parse([`${block(body)}\n${block(F)}`], false),
      { reasoning: '', content: block(body), calls: [f] },
      `${body}, then a good one`,
    )
  }
  for (const open of [
    '<tool_call>',
    `x <tool_call>${F}`,
    `<tool_call>${F}</tool_cal`,
    '<tool_call>{"a":"</tool_call',
  ]) {
    t.same(parse([open], false), { reasoning: '', content: open, calls: [] }, `${open}, never closed`)
  }
  // A string that never ends is none, so the marker inside it closes the block.
  const broken = '<tool_call>{"name":"f}</tool_call> '
  t.same(parse([broken + '\n' + block(F)], false).calls, [f])
  t.same(parse([broken, 'rest'], false), { reasoning: '', content: broken + 'rest', calls: [] })
})

const words = [
  ...[
    '<think>',
    '</think>',
    '<tool_call>',
    '</tool_call>',
    '<',
    '</',
    '<tool',
    '_call>',
    'think>',
    '\n',
    ' ',
    '\n\n',
    '\t',
  ],
  ...[
    F,
    '{"name":',
    '"f"',
    '"',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '\\',
    '"arguments":',
    '{"name":"g"}',
    'é🍁',
    '\u00a0',
    '1.5e3',
    'null',
  ],
  block(F),
]

t.test('any cut of an output gives the same answer', async () => {
  fc.assert(
    fc.property(fragments(words), cuts, fc.boolean(), (raw, positions, thinking) => {
      const whole = parse([raw], thinking)
      deepEqual(parse(cutAt(raw, positions), thinking), whole)
      deepEqual(parse(raw.split(''), thinking), whole)
    }),
    { numRuns: 3000 },
  )
})

t.test('content is held back no longer than needed', async (t) => {
  const parser = new ChatParser({ thinking: false })
  t.same(answer(parser.push('Hello')).content, 'Hello')
  t.same(answer(parser.push(' world <')).content, ' world')
  t.same(answer(parser.push('b>')).content, ' <b>')
  t.same(answer(parser.push('<tool_call>oh')).content, '<tool_call>oh', 'as soon as it is no call')
  t.same(answer(parser.push(' no')).content, ' no')
})

t.test('ids of calls are random', async (t) => {
  const parts = new ChatParser({ thinking: false }).push(block(`${F}${F}`))
  const ids = parts.map((part) => (part.type === 'tool_call' ? part.call.id : ''))
  t.equal(new Set(ids).size, 2)
  for (const id of ids) t.match(id, /^call_[0-9a-f]{24,}$/)
})

t.test('hostile outputs take linear time', async (t) => {
  const n = 200_000
  const outputs = [
    ...[
      '<',
      '\n',
      ' ',
      '<tool_call>',
      '</tool_call>',
      '<tool_call>{"',
      '{"name":"f"}',
      '"',
      '<tool_call>{"</tool_call>',
    ],
    ...['[', '\\"', '<tool_call>{"name":"f"}', '<tool_call>{"\\"</tool_call>'],
  ]
  for (const unit of outputs) {
    const raw = '<tool_call>'.repeat(unit === '[' ? 1 : 0) + unit.repeat(n / unit.length)
    // Time is not asserted; a quadratic scan would run into the runner's time-out.
    const { content, calls } = parse(
      cutAt(
        raw,
        Array.from({ length: 50_000 }, (_, i) => i * 4),
      ),
      false,
    )
    t.ok(content.length + calls.length >= 0)
    t.same(parse([raw], false).content, content)
  }
})
