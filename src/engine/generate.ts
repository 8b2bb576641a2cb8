import { fromNative, type NativeGenerateParams, type NativeModel } from '../native.js'
import type { TokenEvent } from './types.js'

/** What {@link tokenStream} needs of the addon's model. */
export type Generator = Pick<NativeModel, 'generate'>

/**
 * The tokens of one answer, as they come. The answer is started by the first pull and cancelled by leaving the loop; a
 * reader that does not pull pauses it. Aborting rejects at once with the signal's reason.
 */
export function tokenStream(
  model: Generator,
  prepare: () => { prompt: Uint32Array; params: NativeGenerateParams },
  signal: AbortSignal | undefined,
): AsyncIterableIterator<TokenEvent> {
  const run: Run = { cancel: undefined, left: false }
  const events = pull(model, prepare, signal, run)
  const leave = (): void => {
    run.left = true
    run.cancel?.()
  }
  return {
    next: () => events.next(),
    // A generator would first wait for the pull in hand, which may be a whole prompt away.
    return: async () => {
      leave()
      return events.return(undefined)
    },
    throw: async (error: unknown) => {
      leave()
      return events.throw(error)
    },
    [Symbol.asyncIterator]() {
      return this
    },
  }
}

/** What the two sides of a stream tell each other. */
interface Run {
  /** Set once the answer has been started. */
  cancel: (() => void) | undefined
  /** The reader has left the loop. */
  left: boolean
}

async function* pull(
  model: Generator,
  prepare: () => { prompt: Uint32Array; params: NativeGenerateParams },
  signal: AbortSignal | undefined,
  run: Run,
): AsyncGenerator<TokenEvent, undefined> {
  // Also tells whether the signal is one.
  const { prompt, params } = prepare()
  signal?.throwIfAborted()
  let generation
  try {
    generation = model.generate(prompt, params)
  } catch (error) {
    throw fromNative(error)
  }
  const cancel = generation.cancel.bind(generation)
  run.cancel = cancel
  signal?.addEventListener('abort', cancel, { once: true })
  try {
    for (;;) {
      let chunk
      try {
        chunk = await generation.next()
      } catch (error) {
        if (run.left) return
        signal?.throwIfAborted()
        throw fromNative(error)
      }
      const { finishReason, promptTokens, cachedTokens, completionTokens } = chunk
      for (const token of chunk.tokens) {
        yield { token, cachedTokens }
        signal?.throwIfAborted()
      }
      if (finishReason !== undefined) {
        yield { finishReason, promptTokens, cachedTokens, completionTokens }
        return
      }
    }
  } finally {
    signal?.removeEventListener('abort', cancel)
    cancel()
  }
}
