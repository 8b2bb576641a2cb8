import t from 'tap'
import { tokenStream } from '../../src/engine/generate.js'
import type { TokenEvent } from '../../src/engine/types.js'

type Chunk = Awaited<ReturnType<Native['next']>>
type Native = ReturnType<Parameters<typeof tokenStream>[0]['generate']>

function chunk(tokens: number[], finishReason?: 'stop' | 'length'): Chunk {
  const counts = finishReason === undefined ? [0, 1, 0] : [3, 1, 9]
  const [promptTokens = 0, cachedTokens = 0, completionTokens = 0] = counts
  const base = { tokens: Uint32Array.from(tokens), promptTokens, cachedTokens, completionTokens }
  return finishReason === undefined ? base : { ...base, finishReason }
}

/** An addon's model that gives the chunks it is told to, then waits until it is cancelled. */
function scripted(chunks: (Chunk | Error)[]) {
  const log = { started: 0, cancelled: 0, pulls: 0 }
  const model = {
    generate() {
      log.started++
      let stop: ((error: Error) => void) | undefined
      return {
        next(): Promise<Chunk> {
          log.pulls++
          const next = chunks.shift()
          if (next instanceof Error) return Promise.reject(next)
          if (next !== undefined) return Promise.resolve(next)
          return new Promise((_, reject) => (stop = reject))
        },
        cancel() {
          log.cancelled++
          stop?.(new Error('CANCELLED: cancelled'))
        },
      }
    },
  }
  return { model, log }
}

const prepare = () => ({ prompt: Uint32Array.of(1), params: {} })

t.test('tokens come one by one, the end last', async (t) => {
  const { model } = scripted([chunk([5, 6]), chunk([7], 'stop')])
  const events: TokenEvent[] = []
  for await (const event of tokenStream(model, prepare, undefined)) events.push(event)
  const end = { finishReason: 'stop', promptTokens: 3, cachedTokens: 1, completionTokens: 9 }
  t.same(events, [...[5, 6, 7].map((token) => ({ token, cachedTokens: 1 })), end])
})

t.test('nothing starts before the first pull, and arguments are checked by it', async (t) => {
  const { model, log } = scripted([])
  const stream = tokenStream(
    model,
    () => {
      throw new RangeError('bad')
    },
    undefined,
  )
  t.equal(log.started, 0)
  await t.rejects(stream.next(), { message: 'bad' })
  t.equal(log.started, 0)
})

t.test('leaving the loop cancels', async (t) => {
  const { model, log } = scripted([chunk([5, 6]), chunk([7])])
  for await (const event of tokenStream(model, prepare, undefined)) {
    if (event.token === 6) break
  }
  t.ok(log.cancelled > 0)
  t.equal(log.pulls, 1)
})

t.test('leaving while a pull waits ends both at once', async (t) => {
  const { model, log } = scripted([chunk([5])])
  const stream = tokenStream(model, prepare, undefined)
  await stream.next()
  const waiting = stream.next()
  await stream.return?.()
  t.same(await waiting, { done: true, value: undefined })
  t.ok(log.cancelled > 0)
})

t.test('aborting rejects with the reason: before, while waiting, between tokens', async (t) => {
  const reason = new Error('gone')
  const early = scripted([])
  await t.rejects(tokenStream(early.model, prepare, AbortSignal.abort(reason)).next(), reason)
  t.equal(early.log.started, 0)

  const waiting = scripted([])
  const controller = new AbortController()
  const pull = tokenStream(waiting.model, prepare, controller.signal).next()
  controller.abort(reason)
  await t.rejects(pull, reason)

  const between = scripted([chunk([5, 6, 7])])
  const second = new AbortController()
  const stream = tokenStream(between.model, prepare, second.signal)
  await stream.next()
  second.abort(reason)
  await t.rejects(stream.next(), reason)
  t.ok(between.log.cancelled > 0)
})

t.test('errors of the addon become the classes of this package', async (t) => {
  const { model } = scripted([new Error('ENGINE_FAILED: the engine failed')])
  await t.rejects(tokenStream(model, prepare, undefined).next(), {
    name: 'EngineError',
    code: 'ENGINE_FAILED',
    message: 'the engine failed',
  })
  const throwing = {
    generate() {
      throw new Error('DISPOSED: the model has been disposed of')
    },
  }
  await t.rejects(tokenStream(throwing, prepare, undefined).next(), { name: 'DisposedError', code: 'DISPOSED' })
})
