import { setTimeout as sleep } from 'node:timers/promises'
import type { ChatEvent, ChatParams, CompletionEvent, CompletionParams, PromptParams } from '../../src/chat/types.js'
import type { ModelInfo } from '../../src/engine/types.js'
import { createError } from '../../src/errors.js'
import type { CallOptions, ServedModel } from '../../src/server/model.js'

export const fakeInfo: ModelInfo = {
  modelPath: 'fake/model',
  vocabSize: 100,
  layers: 1,
  hiddenSize: 8,
  experts: 2,
  expertsPerToken: 1,
  slidingWindow: 8,
  contextLength: 1000,
  dtype: 'float32',
  isa: 'scalar',
  attention: 'fake',
  threads: 1,
  packedExperts: 6,
  loadSeconds: 0.5,
  weightBytes: 10,
  format: 'hf',
  warnings: [],
}

type Piece =
  ChatEvent | { readonly type: 'wait'; readonly ms: number } | { readonly type: 'throw'; readonly error: unknown }

/** What a {@link FakeModel} does in a request, and what it was asked. */
export class FakeModel implements ServedModel {
  readonly info: ModelInfo
  /** What the next answers consist of. */
  script: (params: ChatParams | CompletionParams) => Iterable<Piece> = () => [{ type: 'content', text: 'Hello' }]
  readonly prompts: PromptParams[] = []
  readonly params: (ChatParams | CompletionParams)[] = []
  readonly rawPrompts: number[][] = []
  /** Answers being made right now; and how many were cut short by their reader. */
  running = 0
  cancelled = 0

  constructor(info: Partial<ModelInfo> = {}) {
    this.info = { ...fakeInfo, ...info }
  }

  /** One token for each character of all contents. */
  async prepareChat(params: PromptParams, { signal }: CallOptions) {
    await sleep(0)
    signal.throwIfAborted()
    this.prompts.push(params)
    const text = params.messages
      .map(({ content }) => (typeof content === 'string' ? content : (content ?? []).map((part) => part.text).join('')))
      .join('')
    if (text.includes('refuse me'))
      throw createError('INVALID_REQUEST', 'the template refuses this', { param: 'messages' })
    return { ids: new Uint32Array([...text].length), text, snapshotAt: [], thinking: true }
  }

  async tokenizePrompt(text: string, _options: CallOptions) {
    return Uint32Array.from(text, (c) => (c.codePointAt(0) ?? 0) % 100)
  }

  runChat(prompt: { ids: Uint32Array }, params: ChatParams, options: CallOptions): AsyncIterable<ChatEvent> {
    return this.#run(prompt.ids.length, params, options)
  }

  runCompletion(ids: Uint32Array, params: CompletionParams, options: CallOptions): AsyncIterable<CompletionEvent> {
    this.rawPrompts.push([...ids])
    return this.#run(ids.length, params, options) as AsyncIterable<CompletionEvent>
  }

  async *#run(
    promptTokens: number,
    params: ChatParams | CompletionParams,
    { signal, onToken }: CallOptions,
  ): AsyncGenerator<ChatEvent> {
    this.params.push(params)
    this.running++
    let over = false
    let completionTokens = 0
    let reasoningTokens = 0
    let reason: 'stop' | 'tool_calls' = 'stop'
    try {
      for (const piece of this.script(params)) {
        if (piece.type === 'wait') await sleep(piece.ms, undefined, { signal })
        else if (piece.type === 'throw') throw piece.error
        else {
          await sleep(0)
          signal.throwIfAborted()
          completionTokens++
          if (piece.type !== 'finish') onToken?.({ cachedTokens: 0 })
          if (piece.type === 'reasoning') reasoningTokens++
          if (piece.type === 'tool_call') reason = 'tool_calls'
          if (piece.type === 'finish') {
            over = true
            yield piece
            return
          }
          yield piece
        }
      }
      over = true
      yield { type: 'finish', reason, usage: { promptTokens, completionTokens, cachedTokens: 0, reasoningTokens } }
    } finally {
      this.running--
      if (!over) this.cancelled++
    }
  }
}
