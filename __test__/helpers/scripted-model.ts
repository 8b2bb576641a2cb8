import { fileURLToPath } from 'node:url'
import { prepareChat, runChat, runCompletion } from '../../src/chat/run.js'
import type { TokenEngine, TokenEvent } from '../../src/engine/types.js'
import type { ServedModel } from '../../src/server/model.js'
import { loadText } from '../../src/text/load.js'
import { fakeInfo } from './fake-model.js'

const fixture = fileURLToPath(new URL('../fixtures/tiny-hf-sharded', import.meta.url))

/** A model whose raw output is written down beforehand, with the tokenizer, template and chat code of a real one. */
export async function scriptedModel(output: () => string): Promise<ServedModel> {
  const text = await loadText(fixture)
  const engine: TokenEngine = {
    info: { ...fakeInfo, vocabSize: 288 },
    async *generate(promptIds, { maxTokens = Infinity, signal } = {}): AsyncGenerator<TokenEvent> {
      const ids = text.tokenize(output())
      let completionTokens = 0
      for (const token of ids) {
        await Promise.resolve()
        signal?.throwIfAborted()
        if (completionTokens === maxTokens) break
        completionTokens++
        yield { token }
      }
      const finishReason = completionTokens === ids.length ? 'stop' : 'length'
      yield { finishReason, promptTokens: promptIds.length, cachedTokens: 0, completionTokens }
    },
    logits: () => Promise.reject(new Error('not scripted')),
    dispose: () => Promise.resolve(),
  }
  return {
    info: engine.info,
    prepareChat: (params, options) => prepareChat(text, params, options),
    runChat: (prompt, params, options) => runChat(engine, text, prompt, params, options),
    tokenizePrompt: (prompt, options) => text.tokenizeAsync(prompt, options),
    runCompletion: (ids, params, options) => runCompletion(engine, text, ids, params, options),
  }
}
