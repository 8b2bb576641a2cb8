import { equal } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { byteText, turnEnd } from '../helpers/text.js'
import { cutAt, cuts } from '../helpers/split.js'

const text = await byteText()
const thinkEnd = text.tokenize('</think>')[0] ?? 0

/** Bytes near the borders of UTF-8's rules, whole characters, control tokens, and ids that no token has. */
const id = fc.oneof(
  fc.constantFrom(0x41, 0x7f, 0x80, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0x9f, 0xa0, 0xed, 0xef, 0xf0, 0x8f, 0x90, 0xf4, 0xf5),
  fc.integer({ min: 0, max: 255 }),
  fc.constantFrom(thinkEnd, turnEnd, 270, 151_900),
)
const ids = fc.oneof(
  fc.array(id, { maxLength: 12 }),
  fc.string({ unit: 'grapheme' }).map((s) => [...Buffer.from(s)]),
)

t.test('any stream of ids reads as all its bytes at once', async () => {
  fc.assert(
    fc.property(ids, cuts, (list, positions) => {
      const bytes = list.flatMap((each) =>
        each < 256 ? [each] : each === thinkEnd ? [...Buffer.from('</think>')] : [],
      )
      const expected = Buffer.from(bytes).toString('utf8')
      equal(text.detokenize(list), expected)
      for (const pieces of [cutAt(list, positions), list.map((each) => [each])]) {
        const stream = text.detokenizer()
        equal(pieces.map((piece) => stream.push(piece)).join('') + stream.end(), expected)
      }
    }),
    { numRuns: 5000 },
  )
})

t.test('characters come whole, and as soon as they are', async (t) => {
  const stream = text.detokenizer()
  t.same(
    [0xf0, 0x9f, 0x8d, 0x81, 0x41].map((byte) => stream.push([byte])),
    ['', '', '', '🍁', 'A'],
  )
  t.equal(stream.push([0xe2, 0x82]), '')
  t.equal(stream.push([0x41]), '\uFFFDA')
  t.equal(stream.push([0xed]), '')
  t.equal(stream.push([0xa0]), '\uFFFD\uFFFD', 'a surrogate can not become a character')
  t.equal(stream.push([0xef, 0xbb, 0xbf]), '\uFEFF', 'a byte order mark is text')
})

t.test('control tokens show when asked for', async (t) => {
  t.equal(text.detokenize([0x41, turnEnd]), 'A')
  t.equal(text.detokenize([0x41, turnEnd], { special: true }), 'A<|im_end|>')
})
