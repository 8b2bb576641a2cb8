import { once } from 'node:events'
import { cp, rm, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  type ChatMessage,
  type GenerateParams,
  type LoadOptions,
  type LoadProgress,
  Maple,
  createServer,
} from '../../src/index.js'
import { fixture } from '../helpers/fixtures.js'
import { readGolden } from '../helpers/golden.js'
import { temporaryFolder } from '../helpers/temporary.js'

const greedy = { temperature: 0, ignoreEos: true }

async function load(t: Test, options: LoadOptions = {}, name = 'tiny-hf-sharded'): Promise<Maple> {
  const model = await Maple.load(fixture(name), { cacheFolder: false, ...options })
  t.teardown(() => model.dispose())
  return model
}

async function collect(model: Maple, prompt: readonly number[], params: GenerateParams): Promise<number[]> {
  const tokens: number[] = []
  for await (const event of model.generate(prompt, params)) if (event.token !== undefined) tokens.push(event.token)
  return tokens
}

t.test('golden logits and greedy tokens, in the modes that promise them', async (t) => {
  for (const name of ['tiny-hf-sharded', 'odd-hf', 'mid-mlx2bit']) {
    const golden = await readGolden(fixture(name))
    for (const dtype of ['float32', 'int16'] as const) {
      const model = await load(t, { dtype }, name)
      t.equal(model.info.dtype, dtype)
      for (const { prompt, greedy: wanted, positions, logits } of golden.cases) {
        t.same(await collect(model, prompt, { ...greedy, maxTokens: wanted.length }), wanted, `${name} ${dtype}`)
        const rows = await model.logits(prompt, { positions })
        for (const [index, row] of rows.entries()) {
          const expected = logits[index] ?? []
          const scale = Math.max(...expected.map(Math.abs))
          const error = Math.max(...expected.map((value, id) => Math.abs(value - (row[id] ?? NaN)))) / scale
          t.ok(error <= golden.bounds[dtype], `${name} ${dtype} at ${positions[index]}: ${error}`)
        }
      }
    }
  }
})

t.test('logits follow the order asked for, once or twice each', async (t) => {
  const model = await load(t)
  const ids = [3, 1, 4, 1, 5]
  const [last] = await model.logits(ids)
  const rows = await model.logits(ids, { positions: [4, 0, 4] })
  t.equal(rows.length, 3)
  t.same([rows[0], rows[2]], [last, last])
  t.same(rows[1], (await model.logits([3]))[0])
  t.same(await model.logits(ids, { positions: [] }), [])
  for (const positions of [[5], [-1], [0.5], [NaN]]) {
    await t.rejects(model.logits(ids, { positions }), { code: 'INVALID_ARGUMENT', param: 'positions' })
  }
  await t.rejects(model.logits([]), { code: 'INVALID_ARGUMENT', param: 'ids' })
  await t.rejects(model.logits(new Array<number>(4097).fill(1)), { code: 'CONTEXT_LENGTH_EXCEEDED' })
})

t.test('the end: token limit, end tokens, a full context, counts and reuse', async (t) => {
  const model = await load(t, { contextLength: 64 })
  const last = async (prompt: readonly number[], params: GenerateParams) => {
    const events = []
    for await (const event of model.generate(prompt, params)) events.push(event)
    return { end: events.at(-1), tokens: events.length - 1 }
  }
  const prompt = Array.from({ length: 40 }, (_, i) => i)
  t.same(await last(prompt, { ...greedy, maxTokens: 5 }), {
    end: { finishReason: 'length', promptTokens: 40, cachedTokens: 0, completionTokens: 5 },
    tokens: 5,
  })
  const first = (await collect(model, prompt, { ...greedy, maxTokens: 2 })) as [number, number]
  t.same(await last(prompt, { temperature: 0, endTokens: [first[1]] }), {
    end: { finishReason: 'stop', promptTokens: 40, cachedTokens: 39, completionTokens: 2 },
    tokens: 1,
  })
  t.match(await last(prompt, greedy), { end: { finishReason: 'length', completionTokens: 24 }, tokens: 24 })
  await t.rejects(collect(model, new Array<number>(64).fill(1), {}), {
    name: 'ContextLengthError',
    code: 'CONTEXT_LENGTH_EXCEEDED',
    message: /64.*64/,
  })
})

t.test('a seed decides, whoever else is answered', async (t) => {
  const model = await load(t)
  const ask = (seed: number | bigint) => collect(model, [1, 2, 3], { seed, temperature: 1, topK: 0, maxTokens: 20 })
  const alone = await ask(7)
  t.same(await Promise.all([ask(7), ask(8), ask(7n + 2n ** 64n), ask(9)]).then((all) => [all[0], all[2]]), [
    alone,
    alone,
  ])
  t.not((await ask(8)).join(), alone.join())
  const random = () => collect(model, [1, 2, 3], { temperature: 9, topK: 0, topP: 1, maxTokens: 20, ignoreEos: true })
  t.not((await random()).join(), (await random()).join(), 'without a seed, answers differ')
})

t.test('aborting while loading, in a prompt, between tokens, and in logits', async (t) => {
  const reason = new Error('enough')
  await t.rejects(Maple.load(fixture('odd-hf'), { signal: AbortSignal.abort(reason) }), reason)
  const loading = new AbortController()
  const load_ = Maple.load(fixture('odd-hf'), { signal: loading.signal, cacheFolder: false })
  loading.abort(reason)
  await t.rejects(load_, reason)

  const model = await load(t)
  const long = new Array<number>(3000).fill(9)
  const inPrompt = new AbortController()
  const first = model.generate(long, { signal: inPrompt.signal }).next()
  setImmediate(() => inPrompt.abort(reason))
  await t.rejects(first, reason)
  const inLogits = new AbortController()
  const rows = model.logits(long, { signal: inLogits.signal })
  setImmediate(() => inLogits.abort(reason))
  await t.rejects(rows, reason)
  const between = new AbortController()
  await t.rejects(async () => {
    for await (const event of model.generate([1], { ...greedy, signal: between.signal })) {
      if (event.token !== undefined) between.abort(reason)
    }
  }, reason)
  t.equal((await collect(model, [1], { ...greedy, maxTokens: 3 })).length, 3)
})

t.test('disposing', async (t) => {
  const model = await Maple.load(fixture('tiny-hf-sharded'), { cacheFolder: false })
  const prompt = model.generate(new Array<number>(3000).fill(9), greedy).next()
  const told = t.rejects(prompt, { name: 'DisposedError', code: 'DISPOSED' })
  await Promise.all([model.dispose(), model[Symbol.asyncDispose](), told])
  await t.rejects(collect(model, [1], {}), { code: 'DISPOSED' })
  await t.rejects(model.logits([1]), { code: 'DISPOSED' })
  await model.dispose()
  t.equal(model.info.layers, 4, 'what it was can still be read')
})

t.test('loading: progress, warnings, options and what is wrong with them', async (t) => {
  const progress: LoadProgress[] = []
  const model = await load(t, {
    threads: 1,
    isa: 'scalar',
    contextLength: 100_000,
    packExperts: false,
    onProgress: (report) => {
      progress.push(report)
      throw new Error('from a callback')
    },
  })
  t.match(model.info, { threads: 1, isa: 'scalar', contextLength: 4096, packedExperts: 0, format: 'hf' })
  t.ok(model.info.warnings.some((warning) => warning.includes('100000') && warning.includes('4096')))
  await new Promise((resolve) => setImmediate(resolve))
  t.match(progress.at(-1), { phase: 'load' })
  t.equal(progress.at(-1)?.loadedBytes, progress.at(-1)?.totalBytes)

  const bad: [LoadOptions, { code: string; message: RegExp }][] = [
    [{ isa: 'sse9' }, { code: 'INVALID_ARGUMENT', message: /sse9.*scalar/ }],
    [{ dtype: 'bf16' as 'int16' }, { code: 'INVALID_ARGUMENT', message: /bf16/ }],
    [{ threads: 1.5 }, { code: 'INVALID_ARGUMENT', message: /threads/ }],
    [{ contextLength: 0 }, { code: 'INVALID_ARGUMENT', message: /contextLength/ }],
  ]
  for (const [options, error] of bad) await t.rejects(Maple.load(fixture('odd-hf'), options), error)
})

t.test('models that are not there or not whole', async (t) => {
  const folder = await temporaryFolder()
  await t.rejects(Maple.load(folder), { name: 'ModelError', code: 'MODEL_NOT_FOUND' })
  await t.rejects(Maple.load(join(folder, 'absent')), { code: 'MODEL_NOT_FOUND' })
  await cp(fixture('tiny-hf-sharded'), folder, { recursive: true })
  await writeFile(join(folder, 'tokenizer.json'), '{"model": 5}')
  await t.rejects(Maple.load(folder, { cacheFolder: false }), { code: 'INVALID_TOKENIZER' })
  await rm(join(folder, 'model-00002-of-00003.safetensors'))
  await t.rejects(Maple.load(folder, { cacheFolder: false }), { code: 'MODEL_NOT_FOUND', message: /00002/ })
})

t.test('conversations: events, the collected answer, and the prompt behind them', async (t) => {
  const model = await load(t)
  const params = { messages: [{ role: 'user', content: 'Grüße, 你好' }], temperature: 0, maxTokens: 60 }
  const prompt = model.renderChat(params)
  t.same(prompt, await model.prepareChat(params))
  t.equal(model.detokenize(prompt.ids, { special: true }), prompt.text)
  t.match(prompt.text, 'Grüße, 你好')
  t.same(model.tokenize('Grüße'), await model.tokenizePrompt('Grüße'))

  let text = ''
  let finish
  for await (const event of model.chat(params)) {
    if (event.type === 'reasoning') text += event.text
    else if (event.type === 'finish') finish = event
  }
  // A model of random weights does not find its way out of the reasoning.
  t.match(finish, { reason: 'length', usage: { promptTokens: prompt.ids.length, completionTokens: 60 } })
  const collected = await model.complete(params)
  t.same(collected.message, { role: 'assistant', content: '', reasoningContent: text })
  t.equal(collected.finishReason, 'length')
  t.equal(collected.usage.cachedTokens, prompt.ids.length - 1, 'the same prompt again is reused up to its last token')
  t.equal(collected.usage.reasoningTokens, 60)

  const plain = await model.complete({ ...params, enableThinking: false })
  t.equal(plain.message.reasoningContent, undefined)
  t.type(plain.message.content, 'string')
  await t.rejects(model.complete({ ...params, topP: 7 }), { code: 'INVALID_ARGUMENT', param: 'topP' })
  await t.rejects(model.complete({ messages: [] }), { code: 'INVALID_REQUEST', param: 'messages' })
  await t.rejects(model.complete(params, { signal: AbortSignal.abort(new Error('no')) }), { message: 'no' })
})

t.test('what plain JavaScript may hand over by mistake is refused by name', async (t) => {
  const model = await load(t)
  const messages = [{ role: 'user', content: 'x' }]
  const ids = [5, 6]
  const drain = async (events: AsyncIterable<unknown>): Promise<void> => {
    for await (const _ of events);
  }
  const wrong = 'x' as never
  const invalid = (param: string) => ({ name: 'InvalidArgumentError', code: 'INVALID_ARGUMENT', param })
  await t.rejects(drain(model.generate(ids, wrong)), invalid('params'))
  await t.rejects(drain(model.generate(ids, { signal: wrong })), invalid('signal'))
  await t.rejects(drain(model.chat({ messages }, wrong)), invalid('options'))
  await t.rejects(drain(model.chat({ messages }, { signal: wrong })), invalid('signal'))
  await t.rejects(model.logits(ids, wrong), invalid('options'))
  for (const positions of [wrong, {} as never, ['0'] as never])
    await t.rejects(model.logits(ids, { positions }), invalid('positions'))
  await t.rejects(model.tokenizePrompt('x', wrong), invalid('options'))
  t.throws(() => model.tokenize('x', wrong), invalid('options'))
  t.throws(() => model.detokenize([0, model.info.vocabSize]), invalid('ids[1]'))
  t.throws(() => model.detokenize(null as never), invalid('ids'))
  t.equal(model.detokenize(new Set<number>()), '')
  for (const nothing of [undefined, null] as never[]) {
    const missing = { name: 'InvalidArgumentError', code: 'INVALID_REQUEST', param: 'messages' }
    await t.rejects(drain(model.chat(nothing)), missing)
    await t.rejects(model.complete(nothing), missing)
    t.throws(() => model.renderChat(nothing), missing)
    await t.resolves(model.logits(ids, nothing), 'no options at all')
  }
  for (const [options, param] of [
    [wrong, 'options'],
    [{ signal: wrong }, 'signal'],
    [{ onProgress: wrong }, 'onProgress'],
    [{ onWarning: wrong }, 'onWarning'],
  ] as [LoadOptions, string][])
    await t.rejects(Maple.load(fixture('tiny-hf-sharded'), options), invalid(param))
})

t.test('the next turn goes on from where the last one began, with the same answer as from nothing', async (t) => {
  const ask = async (model: Maple, messages: ChatMessage[]) =>
    model.complete({ messages, temperature: 0, maxTokens: 30 })
  const first = [{ role: 'user', content: 'a first question, long enough to leave the window of eight tokens behind' }]
  const second = [...first, { role: 'assistant', content: 'an answer' }, { role: 'user', content: 'and another' }]
  const warm = await load(t)
  await ask(warm, first)
  const answer = await ask(warm, second)
  const turn = warm.renderChat({ messages: first }).snapshotAt.at(-1) ?? 0
  t.ok(
    turn > 0 && answer.usage.cachedTokens >= turn,
    `${answer.usage.cachedTokens} tokens reused, the turn began at ${turn}`,
  )
  const cold = await ask(await load(t, { prefixCacheBytes: 0 }), second)
  t.same(answer.message, cold.message)
  t.equal(cold.usage.cachedTokens, 0)
})

t.test('the app of the server takes the model as it is', async (t) => {
  const model = await load(t)
  const app = createServer(model, { modelId: 'tiny' })
  const listening = app.listen(0, '127.0.0.1')
  await once(listening, 'listening')
  t.teardown(() => listening.close())
  for (const none of [undefined, null, 'sprout', {}] as never[])
    t.throws(() => createServer(none), { code: 'INVALID_ARGUMENT', param: 'model' })
  const { port } = listening.address() as AddressInfo
  const response = await fetch(`http://127.0.0.1:${port}/v1/completions`, {
    method: 'POST',
    body: JSON.stringify({ prompt: [5, 6, 7], max_tokens: 4, temperature: 0 }),
  })
  t.match(await response.json(), { model: 'tiny', usage: { prompt_tokens: 3 }, choices: [{ index: 0 }] })
})

t.test('a name on the hub is looked up there', async (t) => {
  const asked: string[] = []
  const hub = createHttpServer((request, response) => {
    asked.push(request.url ?? '')
    response.writeHead(404, { 'x-error-code': 'RepoNotFound' }).end()
  }).listen(0, '127.0.0.1')
  await once(hub, 'listening')
  t.teardown(() => hub.close())
  const cache = await temporaryFolder()
  const env = { HF_ENDPOINT: `http://127.0.0.1:${(hub.address() as AddressInfo).port}`, HF_HUB_CACHE: cache }
  await t.rejects(Maple.load('org/absent', { env }), { name: 'HubError', code: 'HUB_NOT_FOUND' })
  t.match(asked[0], /org\/absent/)
})
