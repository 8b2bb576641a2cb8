import { execFileSync } from 'node:child_process'
import { mkdir, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { loadText } from '../../src/text/load.js'
import { byteTokenizer, endOfText, folderOf, goldenTemplate, turnEnd, turnStart } from '../helpers/text.js'

const BOM = '\uFEFF'
const messages = [{ role: 'user', content: 'Hi' }]
const load = async (files: Readonly<Record<string, unknown>>) => loadText(await folderOf(files))

t.test('the template is found where checkpoints keep it', async (t) => {
  const tokenizer = { 'tokenizer.json': byteTokenizer() }
  const config = (chat_template: unknown) => ({ ...tokenizer, 'tokenizer_config.json': { chat_template } })
  const text = async (files: Readonly<Record<string, unknown>>, tools?: object[]) =>
    (await load(files)).render({ messages, tools }).text

  t.equal(await text(config('config')), 'config')
  t.equal(await text({ ...config('config'), 'chat_template.jinja': 'jinja' }), 'jinja')
  const named = [
    { name: 'default', template: 'plain' },
    { name: 'tool_use', template: 'with tools' },
  ]
  t.equal(await text(config(named)), 'plain')
  t.equal(await text(config(named), [{}]), 'with tools')
  t.equal(await text(config(named.slice(1))), 'with tools', 'the only one there is')
  const bom = {
    'tokenizer.json': BOM + JSON.stringify(byteTokenizer()),
    'tokenizer_config.json': `${BOM}{"eos_token": "E"}`,
  }
  t.equal(await text({ ...bom, 'chat_template.jinja': `${BOM}{{ eos_token }}` }), 'E')
})

t.test('a folder without a tokenizer, or without a template', async (t) => {
  const bare = await load({})
  t.match(bare, { hasTokenizer: false, hasTemplate: false, endTokens: [], turnStart: undefined })
  t.equal(bare.warnings.length, 3)
  for (const call of [() => bare.tokenize('x'), () => bare.detokenize([1]), () => bare.detokenizer()]) {
    t.throws(call, { code: 'TOKENIZER_MISSING' })
  }
  await t.rejects(bare.tokenizeAsync('x'), { code: 'TOKENIZER_MISSING' })
  const raw = await load({ 'tokenizer.json': byteTokenizer() })
  t.throws(() => raw.render({ messages }), { code: 'INVALID_REQUEST', param: 'messages' })
  t.match(raw, { hasTokenizer: true, hasTemplate: false, turnStart })
})

t.test('arguments of the wrong type are refused', async (t) => {
  const text = await load({ 'tokenizer.json': byteTokenizer() })
  for (const bad of [undefined, null, 5, {}]) {
    t.throws(() => text.tokenize(bad as never), { code: 'INVALID_ARGUMENT', param: 'text' })
    await t.rejects(text.tokenizeAsync(bad as never), { code: 'INVALID_ARGUMENT', param: 'text' })
    t.throws(() => text.detokenize(bad as never), { code: 'INVALID_ARGUMENT', param: 'ids' })
  }
  for (const ids of [[1.5], [-1], ['1'], 'ab']) {
    t.throws(() => text.detokenize(ids as never), { code: 'INVALID_ARGUMENT', param: 'ids' })
  }
  t.equal(text.detokenize(new Set([97, 5000])), 'a', 'an id without a token has no text')
})

t.test('end tokens are everything that any file names', async (t) => {
  const files = { 'tokenizer.json': byteTokenizer(), 'chat_template.jinja': await goldenTemplate() }
  t.same((await load(files)).endTokens, [endOfText, turnEnd])
  const more = await load({
    ...files,
    'config.json': { eos_token_id: 7 },
    'generation_config.json': { eos_token_id: [9, 8] },
    'tokenizer_config.json': { eos_token: { content: '</think>' } },
  })
  t.same(more.endTokens, [7, 8, 9, endOfText, turnEnd, 264])
})

t.test('what is broken is refused by name', async (t) => {
  const model = { type: 'BPE', vocab: { a: 0, b: 1 }, merges: [] as unknown[] }
  const tokenizer = (more: object) => ({ 'tokenizer.json': byteTokenizer(more) })
  const bad: [files: Readonly<Record<string, unknown>>, code: string, message: RegExp][] = [
    [{ 'tokenizer.json': '{' }, 'INVALID_TOKENIZER', /^tokenizer\.json: /],
    [{ 'tokenizer.json': '[]' }, 'INVALID_TOKENIZER', /JSON object/],
    [{ 'tokenizer.json': {} }, 'INVALID_TOKENIZER', /model must be an object/],
    [tokenizer({ model: { ...model, type: 'Unigram' } }), 'INVALID_TOKENIZER', /"Unigram"/],
    [tokenizer({ model: { ...model, byte_fallback: true } }), 'INVALID_TOKENIZER', /byte_fallback/],
    [tokenizer({ model: { ...model, vocab: { a: -1 } } }), 'INVALID_TOKENIZER', /id of "a" .* -1/],
    [
      tokenizer({ model: { ...model, vocab: { a: 1, b: 1 } } }),
      'INVALID_TOKENIZER',
      /id 1 belongs to both "a" and "b"/,
    ],
    [tokenizer({ model: { ...model, vocab: { a: 256 } } }), 'INVALID_TOKENIZER', /id 256 .*<\|endoftext\|>/],
    [tokenizer({ model: { ...model, merges: ['a'] } }), 'INVALID_TOKENIZER', /merges\[0\]/],
    [tokenizer({ model: { ...model, merges: ['a b'] } }), 'INVALID_TOKENIZER', /merge 0 .*vocabulary/],
    [tokenizer({ decoder: null }), 'INVALID_TOKENIZER', /decoder/],
    [tokenizer({ pre_tokenizer: null }), 'INVALID_TOKENIZER', /pre_tokenizer/],
    [tokenizer({ normalizer: { type: 'Nope' } }), 'INVALID_TOKENIZER', /Nope/],
    [tokenizer({ added_tokens: [{ id: 300, content: '' }] }), 'INVALID_TOKENIZER', /added_tokens\[0\]/],
    [{ 'tokenizer_config.json': 'null' }, 'INVALID_TOKENIZER', /^tokenizer_config\.json/],
    [{ 'tokenizer_config.json': { chat_template: 5 } }, 'INVALID_TOKENIZER', /^tokenizer_config\.json: chat_template/],
    [{ 'tokenizer_config.json': { chat_template: [{}] } }, 'INVALID_TOKENIZER', /chat_template\[0\]/],
    [{ 'chat_template.jinja': '{% if %}' }, 'INVALID_TOKENIZER', /^chat_template\.jinja: /],
    [{ 'config.json': '{"eos_token_id": "x"}' }, 'INVALID_CHECKPOINT', /^config\.json: eos_token_id .*"x"/],
    [{ 'generation_config.json': '!' }, 'INVALID_CHECKPOINT', /^generation_config\.json/],
    [{ ...tokenizer({}), 'config.json': { vocab_size: 200 } }, 'INVALID_TOKENIZER', /ids up to 264.*vocab_size 200/],
  ]
  for (const [files, code, message] of bad) await t.rejects(load(files), { code, message }, String(message))
})

t.test('ordinary text does not turn into an added token by way of merges', async (t) => {
  const vocab = Object.fromEntries([...'<a>'].map((char, i) => [char, i]))
  const text = await load({
    'tokenizer.json': byteTokenizer({
      added_tokens: [{ id: 4, content: '<a>', special: true }],
      model: { type: 'BPE', vocab: { ...vocab, '<a': 3, '<a>': 4 }, merges: ['< a', '<a >'] },
    }),
  })
  t.same([...text.tokenize('<a>')], [4])
  t.same([...text.tokenize('<a>', { special: false })], [3, 2])
})

t.test('added tokens keep the reference library’s flags', async (t) => {
  const flags = { id: 300, content: '[M]', lstrip: true, rstrip: true, single_word: true }
  const text = await load({ 'tokenizer.json': byteTokenizer({ added_tokens: [flags] }) })
  t.same([...text.tokenize('a  [M] \nb')], [97, 300, 98])
  t.same([...text.tokenize('a[M]')], [97, ...Buffer.from('[M]')])
})

t.test('files that are no files are refused at once', { skip: process.platform === 'win32' }, async (t) => {
  const names = [
    'config.json',
    'generation_config.json',
    'tokenizer.json',
    'tokenizer_config.json',
    'chat_template.jinja',
  ]
  for (const name of names) {
    const folder = await folderOf({ 'tokenizer.json': byteTokenizer() })
    const path = join(folder, name)
    await rm(path, { force: true })
    const refused = (kind: string) =>
      t.rejects(loadText(folder), {
        code: 'READ_FAILED',
        message: new RegExp(`^${name} cannot be read: it is ${kind}; expected a regular file`),
      })
    execFileSync('mkfifo', [path])
    await refused('a pipe')
    await rm(path)
    await symlink('/dev/zero', path)
    await refused('a device')
    await rm(path)
    await mkdir(path)
    await refused('a folder')
  }
})
