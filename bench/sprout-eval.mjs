// Grades sprout on its held-out prompts, greedy, through the engine.
//
//   node bench/sprout-eval.mjs [--dtype float32|int16|int8] [--count 200] [--kinds a,b] [--wrong 3] [--answers FILE]
//
// --answers FILE compares every token with what the recipe's own forward pass gave (training/evaluate.py run --answers FILE).
// Needs a build (npm run build). Exits with 1 where a token differs.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { gunzipSync } from 'node:zlib'

import { Maple } from '../dist/index.js'

const folder = fileURLToPath(new URL('../models/sprout/', import.meta.url))
const { values: options } = parseArgs({
  options: {
    model: { type: 'string', default: folder },
    prompts: { type: 'string', default: `${folder}training/heldout.json.gz` },
    dtype: { type: 'string', default: 'auto' },
    count: { type: 'string', default: '200' },
    kinds: { type: 'string' },
    wrong: { type: 'string', default: '0' },
    answers: { type: 'string' },
  },
})
const LONGEST_ANSWER = 200
const TOGETHER = 8

function read(file) {
  const raw = readFileSync(file)
  return JSON.parse(file.endsWith('.gz') ? gunzipSync(raw) : raw)
}

/** The answer without reasoning and end token; undefined where the reasoning never ends. */
function answerOf(item, text) {
  if (item.thinking && !text.includes('</think>')) return undefined
  const content = item.thinking
    ? text.slice(text.lastIndexOf('</think>') + '</think>'.length).replace(/^\n+/, '')
    : text
  return content.replace(/<\|(im_end|endoftext)\|>$/, '')
}

/** JSON text with the keys of every object in order, so that equal values have equal text. */
function canonical(value) {
  const sorted = (_key, v) =>
    v !== null && typeof v === 'object' && !Array.isArray(v)
      ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1)))
      : v
  return JSON.stringify(value, sorted)
}

function callsIn(content) {
  return canonical([...content.matchAll(/<tool_call>\n(.*?)\n<\/tool_call>/gs)].map((m) => JSON.parse(m[1])))
}

/** The same grades as evaluate.py: the last number, the same calls with the same arguments, or the exact text. */
function isRight(item, text) {
  const content = answerOf(item, text)
  if (content === undefined) return false
  if (item.grade === 'number') return content.match(/-?\d+/g)?.at(-1) === item.expected.match(/-?\d+/g).at(-1)
  if (item.grade === 'exact') return content === item.expected
  try {
    return callsIn(content) === callsIn(item.expected)
  } catch {
    return false
  }
}

async function generate(model, item) {
  const ids = []
  const prompt = model.tokenize(item.prompt, { special: true })
  for await (const event of model.generate(prompt, { temperature: 0, maxTokens: LONGEST_ANSWER })) {
    if (event.token !== undefined) ids.push(event.token)
  }
  return ids
}

const items = read(options.prompts)
const reference = options.answers && new Map(read(options.answers).map((a) => [`${a.kind}\n${a.prompt}`, a.ids]))
const model = await Maple.load(options.model, { dtype: options.dtype })
const { dtype, isa, threads } = model.info
console.log(`dtype ${dtype}, ${isa}, ${threads} threads\n\n| kind | right | of | |\n| --- | ---: | ---: | ---: |`)
let differ = 0
let compared = 0
const start = performance.now()
let tokens = 0
for (const kind of options.kinds?.split(',') ?? new Set(items.map((i) => i.kind))) {
  const chosen = items.filter((i) => i.kind === kind).slice(0, Number(options.count))
  const answers = new Array(chosen.length)
  let next = 0
  const worker = async () => {
    for (let i = next++; i < chosen.length; i = next++) answers[i] = await generate(model, chosen[i])
  }
  await Promise.all(Array.from({ length: TOGETHER }, worker))
  let right = 0
  const wrong = []
  chosen.forEach((item, i) => {
    const text = model.detokenize(answers[i], { special: true })
    tokens += answers[i].length
    if (isRight(item, text)) right++
    else wrong.push([item.prompt.slice(-200), item.expected, text])
    const expected = reference?.get(`${kind}\n${item.prompt}`)
    if (expected === undefined) return
    compared++
    const end = Math.min(expected.length, answers[i].length)
    const at = expected.slice(0, end).findIndex((id, k) => id !== answers[i][k])
    // An end token is part of the recipe's answer and may not be of the engine's.
    if (at >= 0 || Math.abs(expected.length - answers[i].length) > 1) differ++
  })
  console.log(`| ${kind} | ${right} | ${chosen.length} | ${((100 * right) / chosen.length).toFixed(1)} % |`)
  for (const w of wrong.slice(0, Number(options.wrong))) console.log(`    ${JSON.stringify(w)}`)
}
console.log(`\n${tokens} tokens in ${((performance.now() - start) / 1000).toFixed(1)} s`)
if (reference !== undefined) console.log(`${differ} of ${compared} answers differ from the recipe's`)
await model.dispose()
process.exitCode = differ > 0 ? 1 : 0
