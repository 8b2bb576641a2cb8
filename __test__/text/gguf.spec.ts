import { equal } from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import fc from 'fast-check'
import t from 'tap'
import { loadText } from '../../src/text/load.js'
import { ggufBytes, ggufFile, metadataOf, text as str, u64, type GgufValue } from '../helpers/gguf.js'
import { chatGoldens, goldenTemplate, folderOf, qwenTokenizer } from '../helpers/text.js'

const json = await qwenTokenizer()
const template = await goldenTemplate()
const keys = metadataOf(json, template, 151_936)
const path = await ggufFile(ggufBytes(keys))
const own = await loadText(path)
const reference = await loadText(await folderOf({ 'tokenizer.json': json, 'chat_template.jinja': template }))

t.test('the chat goldens come out of the metadata as from tokenizer.json', async (t) => {
  const goldens = await chatGoldens()
  for (const { messages, tools, prompt, ids } of goldens.cases) {
    const rendered = own.render({ messages, tools: tools ?? undefined, addGenerationPrompt: true })
    t.equal(rendered.text, prompt)
    t.same([...(await own.encodePrompt(rendered))], ids)
  }
  for (const { text, ids } of goldens.encodings) t.same([...own.tokenize(text)], ids)
  t.same(own.endTokens, [151_643, 151_645])
})

t.test('any text has the same ids and comes back the same', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'binary' }), fc.array(fc.nat(151_935)), async (text, ids) => {
      equal(own.tokenize(text).join(), reference.tokenize(text).join())
      equal(own.detokenize(ids, { special: true }), reference.detokenize(ids, { special: true }))
      equal(own.detokenize(ids), reference.detokenize(ids))
      await Promise.resolve()
    }),
    { numRuns: 300 },
  )
})

t.test('named templates are found, and a file without text keys says so', async (t) => {
  const named = { ...keys, 'tokenizer.chat_template.tool_use': { string: 'with tools' } }
  const two = await loadText(await ggufFile(ggufBytes(named)))
  const tool = { type: 'function', function: { name: 'f' } }
  t.equal(two.render({ messages: [], tools: [tool] }).text, 'with tools')
  const none = await loadText(await ggufFile(ggufBytes({ 'general.architecture': { string: 'maple' } })))
  t.notOk(none.hasTokenizer)
  t.notOk(none.hasTemplate)
})

/** Small metadata, for files that are broken in one place. */
const small: Record<string, GgufValue> = {
  'tokenizer.ggml.model': { string: 'gpt2' },
  'tokenizer.ggml.pre': { string: 'qwen2' },
  'tokenizer.ggml.tokens': { strings: ['a', 'b', 'ab', '<|im_end|>'] },
  'tokenizer.ggml.token_type': { i32: [1, 1, 1, 3] },
  'tokenizer.ggml.merges': { strings: ['a b'] },
  'tokenizer.ggml.eos_token_id': { u32: 3 },
}

t.test('each defect is refused in words', async (t) => {
  const cases: [string, RegExp, Record<string, GgufValue>][] = [
    [
      'another model',
      /tokenizer\.ggml\.model" is "llama", expected "gpt2"/,
      { 'tokenizer.ggml.model': { string: 'llama' } },
    ],
    [
      'another split',
      /tokenizer\.ggml\.pre" is "default", expected "qwen2"/,
      { 'tokenizer.ggml.pre': { string: 'default' } },
    ],
    [
      'too few types',
      /token_type" is an array of 3, expected an array of 4/,
      { 'tokenizer.ggml.token_type': { i32: [1, 1, 1] } },
    ],
    [
      'a type of 9',
      /token_type" is 9, expected types from 1 to 6/,
      { 'tokenizer.ggml.token_type': { i32: [1, 1, 9, 3] } },
    ],
    ['tokens that are numbers', /tokens" is .*expected an array of strings/, { 'tokenizer.ggml.tokens': { i32: [1] } }],
    [
      'a token twice',
      /"a" is there twice, as ids 0 and 1/,
      { 'tokenizer.ggml.tokens': { strings: ['a', 'a', 'ab', 'x'] } },
    ],
    ['a merge of three', /merges" is "a b c", expected pairs/, { 'tokenizer.ggml.merges': { strings: ['a b c'] } }],
    ['a merge of nothing known', /merge 0/, { 'tokenizer.ggml.merges': { strings: ['a z'] } }],
    [
      'an end token past the vocabulary',
      /eos_token_id" is 4, expected a token id below 4/,
      { 'tokenizer.ggml.eos_token_id': { u32: 4 } },
    ],
    [
      'a template that is a number',
      /chat_template" is 1, expected a string/,
      { 'tokenizer.chat_template': { u32: 1 } },
    ],
    ['a template that does not parse', /chat_template/, { 'tokenizer.chat_template': { string: '{% if %}' } }],
    ['a value type of 13', /unknown value type 13/, { x: { raw: Buffer.alloc(4), type: 13 } }],
    [
      'a string past the end',
      /length of the value of key "x" is 1099511627776/,
      { x: { raw: u64(1n << 40n), type: 8 } },
    ],
    [
      'an array past the end',
      /element count of key "x" is/,
      { x: { raw: Buffer.concat([Buffer.from([4, 0, 0, 0]), u64(1n << 62n)]), type: 9 } },
    ],
    [
      'text that is no UTF-8',
      /not UTF-8/,
      { 'tokenizer.x': { raw: Buffer.concat([u64(1), Buffer.from([0xff])]), type: 8 } },
    ],
  ]
  for (const [name, message, change] of cases) {
    const broken = await ggufFile(ggufBytes({ ...small, ...change }))
    await t.rejects(loadText(broken), { code: 'INVALID_TOKENIZER', message }, name)
  }
  const twice = ggufBytes([...Object.entries(small), ['tokenizer.ggml.pre', { string: 'qwen2' }]])
  await t.rejects(loadText(await ggufFile(twice)), { message: /tokenizer\.ggml\.pre" is there twice/ })
  const nested = Array.from({ length: 6 }).reduce<Buffer>(
    (inner) => Buffer.concat([Buffer.from([9, 0, 0, 0]), u64(1), inner]),
    Buffer.concat([Buffer.from([4, 0, 0, 0]), u64(0)]),
  )
  await t.rejects(loadText(await ggufFile(ggufBytes({ x: { raw: nested, type: 9 } }))), { message: /deeper than 4/ })
})

t.test('a file cut anywhere is refused', async (t) => {
  const whole = ggufBytes(small)
  const file = await ggufFile(whole)
  t.ok((await loadText(file)).hasTokenizer)
  for (let cut = 0; cut < whole.length; cut++) {
    await writeFile(file, whole.subarray(0, cut))
    await t.rejects(loadText(file), { code: 'INVALID_TOKENIZER' }, `${cut} bytes`)
  }
  await writeFile(file, Buffer.concat([Buffer.from('GGML'), (await readFile(file)).subarray(4)]))
  await t.rejects(loadText(file), { message: /not a GGUF file/ })
  await writeFile(file, Buffer.concat([Buffer.from('GGUF'), Buffer.from([9, 0, 0, 0]), str('')]))
  await t.rejects(loadText(file), { message: /version 9/ })
})
