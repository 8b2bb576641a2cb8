import t from 'tap'
import * as native from '../../index.js'
import { fixture } from '../helpers/fixtures.js'

const folder = fixture('tiny-hf-sharded')

t.test('whatever the addon is handed, it answers or refuses, and works on', async (t) => {
  const model = await native.loadModel(folder)
  t.teardown(() => model.dispose())
  const other = new native.Cancellation()
  const detached = Uint32Array.of(1, 2, 3)
  structuredClone(detached.buffer, { transfer: [detached.buffer] })
  const trap = new Proxy(
    {},
    {
      get() {
        throw new Error('trap')
      },
    },
  )
  const plain = [undefined, null, 5, NaN, -1, 2 ** 40, 'x', true, 3n, Symbol('s'), {}, [], [1], () => {}, new Date()]
  const arrays = [detached, new Uint32Array(0), Uint32Array.of(1, 2, 999_999), new Uint8Array(4), new Float32Array(3)]
  const shared = new Uint32Array(new SharedArrayBuffer(12))
  const params = [
    { maxTokens: 1, endTokens: [NaN] },
    { maxTokens: 1, endTokens: [1e12] },
    { maxTokens: 1, snapshotAt: [1e9] },
    { maxTokens: 1, seed: -5n },
    { maxTokens: 1, seed: 2n ** 200n },
    { temperature: '1' },
    { ignoreEos: 'yes' },
    {
      get maxTokens() {
        throw new Error('from a getter')
      },
    },
  ]
  const odd: any[] = [...plain, ...arrays, shared, trap, ...params, model, other]

  let refused = 0
  const attempt = async (call: () => unknown): Promise<void> => {
    try {
      const result = await call()
      if (result instanceof native.NativeGeneration) {
        await result.next()
        result.cancel()
        result.cancel()
      }
    } catch (error) {
      if (!(error instanceof Error)) t.fail('something was thrown that is no error', { error })
      refused++
    }
  }
  for (const first of odd) {
    for (const second of odd) {
      await attempt(() => model.generate(first, second))
      await attempt(() => model.logits(first, second))
    }
    await attempt(() => model.logits(Uint32Array.of(1), [0], first))
    await attempt(() => native.loadModel(first))
    await attempt(() => native.loadModel(first, first, first, first))
    await attempt(() => native.NativeGeneration.prototype.next.call(first))
    if (first !== model) await attempt(() => native.NativeModel.prototype.dispose.call(first))
  }
  t.ok(refused > odd.length)
  const chunk = await model.generate(Uint32Array.of(1, 2), { maxTokens: 1, ignoreEos: true }).next()
  t.equal(chunk.tokens.length, 1)
})

t.test('several pulls at once share the tokens, and the end is told to all', async (t) => {
  const model = await native.loadModel(folder)
  t.teardown(() => model.dispose())
  const generation = model.generate(Uint32Array.of(1, 2), { maxTokens: 3, ignoreEos: true })
  const chunks = await Promise.all(Array.from({ length: 6 }, () => generation.next()))
  const tokens = chunks.reduce((sum, chunk) => sum + chunk.tokens.length, 0)
  t.equal(tokens, 3)
  t.equal(chunks.at(-1)?.finishReason, 'length')
  t.equal((await generation.next()).finishReason, 'length')
})
