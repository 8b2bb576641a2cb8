import { equal } from 'node:assert/strict'
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

t.test('encoding stops when its signal aborts', async (t) => {
  const reason = new Error('enough')
  await t.rejects(text.tokenizeAsync('word '.repeat(500_000), { signal: AbortSignal.abort(reason) }), reason)
})

t.test('lone surrogates are encoded as U+FFFD', async (t) => {
  t.same(text.tokenize('a\ud800b'), text.tokenize('a\ufffdb'))
})
