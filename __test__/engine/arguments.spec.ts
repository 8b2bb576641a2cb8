import t from 'tap'
import { checkCall, checkCallback, checkIds, checkParams, checkPrompt } from '../../src/engine/arguments.js'
import type { GenerateParams } from '../../src/engine/types.js'

const limits = { vocabSize: 100, contextLength: 8 }

t.test('prompts', async (t) => {
  t.same(checkPrompt([0, 99], limits), Uint32Array.of(0, 99))
  const own = Uint32Array.of(1, 2)
  t.not(checkPrompt(own, limits), own, 'a copy, so that later changes do not matter')
  t.throws(() => checkPrompt(new Array(8).fill(1), limits), {
    code: 'CONTEXT_LENGTH_EXCEEDED',
    message: /8 tokens.*context of 8/,
  })
  for (const bad of [[], new Uint32Array(0)]) {
    t.throws(() => checkPrompt(bad, limits), { code: 'INVALID_ARGUMENT', param: 'promptIds' })
  }
  for (const bad of [100, -1, 1.5, NaN, '3', null, undefined, 2 ** 32, 3n]) {
    t.throws(() => checkPrompt([1, bad], limits), { code: 'INVALID_ARGUMENT', param: 'promptIds[1]' }, String(bad))
  }
  for (const bad of [undefined, null, 'text', 5, {}, new Float64Array(3)]) {
    t.throws(() => checkIds('ids', bad, limits), { code: 'INVALID_ARGUMENT', param: 'ids' })
  }
})

t.test('parameters that are accepted', async (t) => {
  const check = (params: GenerateParams) => checkParams(params, limits, [7])
  t.same(check({}), { endTokens: [7] })
  t.same(check({ maxTokens: 1e9, topK: 1e9, temperature: 0, endTokens: [] }), {
    maxTokens: 8,
    topK: 100,
    temperature: 0,
    endTokens: [],
  })
  t.same(check({ endTokens: [3, 4], snapshotAt: [1], ignoreEos: true, topK: -1, topP: 1, repetitionPenalty: 0.5 }), {
    endTokens: [3, 4],
    snapshotAt: [1],
    ignoreEos: true,
    topK: -1,
    topP: 1,
    repetitionPenalty: 0.5,
  })
  t.equal(check({ seed: -1 }).seed, 2n ** 64n - 1n)
  t.equal(check({ seed: 2 ** 60 }).seed, 2n ** 60n)
  t.equal(check({ seed: 2n ** 64n + 5n }).seed, 5n)
  // Callers in plain JavaScript may hand over nulls.
  t.same(check({ topP: null, seed: null } as unknown as GenerateParams), { endTokens: [7] })
})

t.test('parameters that are refused by name', async (t) => {
  const bad: Record<string, unknown[]> = {
    maxTokens: [0, -1, 1.5, NaN, Infinity, '5', 5n],
    temperature: [-0.1, NaN, Infinity, '1'],
    topK: [-2, 0.5, NaN, '3'],
    topP: [0, -1, 1.01, NaN, '1'],
    repetitionPenalty: [0, -1, NaN, Infinity],
    seed: [1.5, NaN, Infinity, '7', {}],
    ignoreEos: [1, 'yes'],
    snapshotAt: [3, [-1], [0.5]],
    endTokens: [3, 'x'],
  }
  for (const [param, values] of Object.entries(bad)) {
    for (const value of values) {
      const params = { [param]: value } as GenerateParams
      t.throws(() => checkParams(params, limits, []), { code: 'INVALID_ARGUMENT', param }, `${param} ${String(value)}`)
    }
  }
})

t.test('options are objects, signals are signals, callbacks are functions', async (t) => {
  t.same(checkCall('options', undefined), {})
  t.same(checkCall('options', null), {})
  const options = { signal: AbortSignal.abort() }
  t.equal(checkCall('options', options), options)
  for (const bad of ['x', 5, true, [], () => 1]) {
    t.throws(() => checkCall('options', bad as object), { code: 'INVALID_ARGUMENT', param: 'options' }, String(bad))
    t.throws(() => checkParams(bad as object, limits, []), { code: 'INVALID_ARGUMENT', param: 'params' }, String(bad))
  }
  for (const signal of ['x', 5, {}, new AbortController(), true]) {
    t.throws(() => checkCall('options', { signal: signal as AbortSignal }), {
      code: 'INVALID_ARGUMENT',
      param: 'signal',
    })
  }
  t.doesNotThrow(() => checkCallback('onProgress', undefined))
  t.doesNotThrow(() => checkCallback('onProgress', () => 1))
  t.throws(() => checkCallback('onProgress', 'x'), { code: 'INVALID_ARGUMENT', param: 'onProgress' })
})
