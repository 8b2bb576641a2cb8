import fc from 'fast-check'
import t from 'tap'
import { ApiError } from '../../src/wire/errors.js'
import { parseJson } from '../../src/wire/json.js'

t.test('agrees with JSON.parse on ordinary texts', (t) => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      const big = /\d{16}/.test(text)
      return big || JSON.stringify(parseJson(text)) === JSON.stringify(JSON.parse(text))
    }),
  )
  t.end()
})

t.test('whole numbers past 2^53 keep every digit, wherever they stand', (t) => {
  t.strictSame(parseJson('{"seed":18446744073709551615,"a":[-9007199254740993,9007199254740991,1.5e3]}'), {
    seed: 18446744073709551615n,
    a: [-9007199254740993n, 9007199254740991, 1500],
  })
  t.strictSame(parseJson(String.raw`{"12345678901234567890":"\"12345678901234567890","x":12345678901234567.5}`), {
    '12345678901234567890': '"12345678901234567890',
    x: Number('12345678901234567.5'),
  })
  t.type(parseJson('9'.repeat(401)), 'number')
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n }), fc.string(), (value, key) => {
      const text = `{${JSON.stringify(key)}:[${value}, ${JSON.stringify(key)}]}`
      const [parsed, copy] = (parseJson(text) as Record<string, unknown[]>)[key] ?? []
      return BigInt(parsed as bigint | number) === value && copy === key.toWellFormed()
    }),
  )
  t.end()
})

t.test('lone surrogates become U+FFFD; pairs and spelled-out escapes stay', (t) => {
  const cases: [string, string][] = [
    [String.raw`"\ud83c\udf41"`, '🍁'],
    [String.raw`"\ud83c"`, '\ufffd'],
    [String.raw`"\udf41\ud83c"`, '\ufffd\ufffd'],
    [String.raw`"\ud83cx\uDF41"`, '\ufffdx\ufffd'],
    [String.raw`"\\ud83c"`, String.raw`\ud83c`],
    [String.raw`"\\\ud83c"`, '\\\ufffd'],
    [String.raw`"\ud83c\ud83c\udf41"`, '\ufffd🍁'],
  ]
  for (const [text, value] of cases) t.equal(parseJson(text), value, text)
  t.strictSame(parseJson(String.raw`{"\ud800":1}`), { '\ufffd': 1 })
  t.end()
})

t.test('byte order mark, doubled keys, NUL, __proto__', (t) => {
  t.strictSame(parseJson('\uFEFF{"a":1,"a":2}'), { a: 2 })
  t.equal(parseJson(String.raw`"a\u0000b"`), 'a\0b')
  const body = parseJson('{"__proto__":{"polluted":true}}') as object
  t.ok(Object.hasOwn(body, '__proto__'))
  t.notOk('polluted' in {})
  t.end()
})

t.test('what is not JSON, and what is nested too deep, is a 400', (t) => {
  const deep = (n: number) => '['.repeat(n) + ']'.repeat(n)
  t.ok(parseJson(deep(200)))
  t.strictSame(parseJson(`["${'['.repeat(500)}"]`), ['['.repeat(500)])
  for (const text of [
    '',
    ' ',
    '{',
    '{"a":}',
    "{'a':1}",
    'NaN',
    '{"a":1}x',
    '"\u0001"',
    '"open',
    deep(201),
    '['.repeat(1e6),
    '{"a":'.repeat(1e5),
    '\uFEFF\uFEFF1',
    '01234567890123456789',
    '{12345678901234567890:1}',
  ]) {
    try {
      parseJson(text)
      t.fail(`accepted ${text.slice(0, 30)}`)
    } catch (error) {
      t.ok(error instanceof ApiError && error.status === 400, text.slice(0, 30))
    }
  }
  t.end()
})
