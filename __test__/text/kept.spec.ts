import { readFile, readdir, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { loadText } from '../../src/text/load.js'
import type { TextModel } from '../../src/text/types.js'
import { ggufBytes, ggufFile, metadataOf } from '../helpers/gguf.js'
import { byteTokenizer, chatGoldens, folderOf, goldenTemplate, qwenTokenizer } from '../helpers/text.js'

t.setTimeout(300_000)

const json = await qwenTokenizer()
const template = await goldenTemplate()
const goldens = await chatGoldens()

/** Ids and texts are those of the goldens. */
async function check(t: Test, text: TextModel): Promise<void> {
  for (const { messages, tools, prompt, ids } of goldens.cases) {
    const rendered = text.render({ messages, tools: tools ?? undefined, addGenerationPrompt: true })
    t.equal(rendered.text, prompt)
    t.same([...(await text.encodePrompt(rendered))], ids)
  }
  for (const { text: input, ids } of goldens.encodings) {
    t.same([...text.tokenize(input)], ids)
    t.equal(text.detokenize(ids, { special: true }), input.normalize('NFC'))
  }
  t.same(text.endTokens, [151_643, 151_645])
  t.equal(text.detokenize([151_645, 151_667, 9707]), '<think>Hello')
}

t.test('the second load takes the copy that the first one made', async (t) => {
  const sources = [
    await folderOf({ 'tokenizer.json': json, 'chat_template.jinja': template }),
    await ggufFile(ggufBytes(metadataOf(json, template, 151_936))),
  ]
  for (const source of sources) {
    const cache = join(t.testdir({}), 'made', 'when needed')
    await check(t, await loadText(source, cache))
    const names = await readdir(cache)
    t.match(names, [/^tokenizer-[0-9a-f]{16}\.bin$/])
    const file = join(cache, names[0] as string)
    const made = await stat(file)
    await check(t, await loadText(source, cache))
    const now = await stat(file)
    t.equal(now.ino, made.ino, 'it is not made again')
  }
})

t.test('a copy of another file, or a damaged one, is made anew', async (t) => {
  const source = await folderOf({ 'tokenizer.json': json, 'chat_template.jinja': template })
  const cache = t.testdir({})
  await loadText(source, cache)
  const file = join(cache, (await readdir(cache))[0] as string)
  const good = await readFile(file)
  const flipped = (at: number): Buffer => {
    const copy = Buffer.from(good)
    copy[at] = (copy[at] as number) ^ 1
    return copy
  }
  const damaged = [
    Buffer.alloc(0),
    good.subarray(0, 35),
    good.subarray(0, good.length / 2),
    flipped(0),
    flipped(40),
    flipped(good.length - 1),
  ]
  for (const bytes of damaged) {
    await writeFile(file, bytes)
    t.same([...(await loadText(source, cache)).tokenize('Hello')], [9707])
    t.ok(good.equals(await readFile(file)), 'repaired')
  }
  // The same bytes put in its place are another file all the same.
  await rename(join(source, 'tokenizer.json'), join(source, 'old'))
  await writeFile(join(source, 'tokenizer.json'), json)
  await utimes(join(source, 'tokenizer.json'), 1, 1)
  await loadText(source, cache)
  t.notOk(good.equals(await readFile(file)), 'its identity is the new one')
  await rm(join(source, 'tokenizer.json'))
  t.notOk((await loadText(source, cache)).hasTokenizer, 'a copy does not outlive its source')
})

t.test('small tokenizers are not kept, and a folder that cannot be written is no fault', async (t) => {
  const cache = t.testdir({ file: '' })
  await loadText(await folderOf({ 'tokenizer.json': byteTokenizer() }), cache)
  t.same(await readdir(cache), ['file'])
  const source = await folderOf({ 'tokenizer.json': json })
  t.same([...(await loadText(source, join(cache, 'file', 'below'))).tokenize('Hello')], [9707])
})

t.test('a broken tokenizer is refused and not kept', async (t) => {
  const cache = t.testdir({})
  const source = await folderOf({ 'tokenizer.json': json.replace('"Hello": 9707', '"Hello": 9708') })
  await t.rejects(loadText(source, cache), { code: 'INVALID_TOKENIZER', message: /^tokenizer\.json: id 9708 belongs/ })
  t.same(await readdir(cache), [])
})
