import { equal } from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import * as tokenizers from '@huggingface/tokenizers'
import fc from 'fast-check'
import t from 'tap'
import { loadText } from '../../src/text/load.js'
import { wellFormed } from '../../src/text/str.js'
import { chatGoldens, folderOf, qwenTokenizer } from '../helpers/text.js'

const file = await qwenTokenizer()
const text = await loadText(await folderOf({ 'tokenizer.json': file }))

interface Encoder {
  encode(text: string, options: { add_special_tokens: boolean }): { ids: number[] }
}
const { Tokenizer } = tokenizers as unknown as { Tokenizer: new (file: object, config: object) => Encoder }
const reference = new Tokenizer(JSON.parse(file) as object, {})

t.test('encodes as the reference library does', async (t) => {
  for (const { text: input, ids } of (await chatGoldens()).encodings) {
    t.same([...text.tokenize(input)], ids, JSON.stringify(input.slice(0, 40)))
    t.equal(text.detokenize(ids, { special: true }), input.normalize('NFC'))
  }
})

t.test('plain encoding never finds an added token', async (t) => {
  t.ok([...text.tokenize('<|im_end|><think>')].every((id) => id >= 151643))
  const plain = [...text.tokenize('<|im_end|><think>', { special: false })]
  t.ok(plain.length > 2 && plain.every((id) => id < 151643))
  t.equal(text.detokenize(plain), '<|im_end|><think>')
})

/** Texts with the things that split patterns look at, repeated until they are cut. */
const longText = fc
  .array(fc.oneof(fc.constantFrom(' ', '\n', "'s", '12', 'e\u0301', '。', '🍁', '\r\n  ', 'Word', '!!'), fc.string()), {
    minLength: 5,
    maxLength: 40,
  })
  .map((parts) => parts.join('').repeat(2000).slice(0, 20_000))

t.test('encodes any text as the whole reference library does, long ones in stretches', async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(fc.string({ unit: 'binary' }), longText), async (input) => {
      const ids = await text.tokenizeAsync(input)
      const expected = reference.encode(wellFormed(input), { add_special_tokens: false }).ids
      equal(ids.join(), expected.join())
      equal(text.tokenize(input).join(), ids.join())
      equal(text.detokenize(ids), wellFormed(input).normalize('NFC'))
    }),
    { numRuns: 100 },
  )
})

t.test('any pattern gives what the library makes of it', async () => {
  const { normalizer, ...rest } = JSON.parse(file) as Record<string, unknown>
  const split = (Regex: string, more = {}) => ({
    ...{ type: 'Split', pattern: { Regex }, behavior: 'Isolated', invert: false },
    ...more,
  })
  const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false }
  const steps: Record<string, object[]> = {
    'another pattern': [split(String.raw`"key": "|\p{L}+|\p{N}|\n+|[^\p{L}\p{N}\n]+`), bytes],
    'a pattern with gaps': [split(String.raw`\p{L}+`), bytes],
    'a pattern that matches nothing, too': [split('a*'), bytes],
    'words that are taken out': [split(String.raw`\p{L}+`, { invert: true }), bytes],
    'gaps that are taken out': [split(String.raw`\s+`, { behavior: 'Removed' }), bytes],
    'two patterns': [split(String.raw`\p{N}{1,3}`), split('[a-m]+'), bytes],
    'no pattern': [bytes],
  }
  for (const [name, pretokenizers] of Object.entries(steps)) {
    const other = { ...rest, normalizer, pre_tokenizer: { type: 'Sequence', pretokenizers } }
    const own = await loadText(await folderOf({ 'tokenizer.json': JSON.stringify(other) }))
    const theirs = new Tokenizer(other, {})
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.string({ unit: 'binary' }), longText), async (input) => {
        const expected = theirs.encode(wellFormed(input), { add_special_tokens: false }).ids
        equal((await own.tokenizeAsync(input)).join(), expected.join(), name)
      }),
      { numRuns: 6 },
    )
  }
})

t.test('long texts give way, whatever the pattern', async (t) => {
  for (const model of [text, await loadText(fileURLToPath(new URL('../../models/sprout', import.meta.url)))]) {
    let turns = 0
    let over = false
    const count = (): void => {
      turns++
      if (!over) setImmediate(count)
    }
    setImmediate(count)
    await model.tokenizeAsync('word and more '.repeat(100_000)).finally(() => (over = true))
    t.ok(turns > 3, `${turns} turns`)
  }
})

t.test('encoding stops when its signal aborts', async (t) => {
  const reason = new Error('enough')
  await t.rejects(text.tokenizeAsync('word '.repeat(500_000), { signal: AbortSignal.abort(reason) }), reason)
})

t.test('lone surrogates are encoded as U+FFFD', async (t) => {
  t.same(text.tokenize('a\ud800b'), text.tokenize('a\ufffdb'))
})
