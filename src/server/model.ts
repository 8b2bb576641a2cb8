import type {
  ChatEvent,
  ChatParams,
  CompletionEvent,
  CompletionParams,
  PreparedPrompt,
  PromptParams,
} from '../chat/types.js'
import type { ModelInfo } from '../engine/types.js'

/** How a call is cut short and watched. */
export interface CallOptions {
  readonly signal: AbortSignal
  /** Told of each generated token when it comes, which is before the text it is part of can be sent. */
  readonly onToken?: ((token: { readonly cachedTokens: number }) => void) | undefined
}

/** A model as the routes see it: prompts in, events out. */
export interface ServedModel {
  readonly info: ModelInfo
  /** Renders and encodes a conversation. Rejects with `INVALID_REQUEST` when the template refuses it. */
  prepareChat(params: PromptParams, options: CallOptions): Promise<PreparedPrompt>
  runChat(prompt: PreparedPrompt, params: ChatParams, options: CallOptions): AsyncIterable<ChatEvent>
  /** Ids of a raw prompt; spellings of control tokens become those tokens. */
  tokenizePrompt(text: string, options: CallOptions): Promise<Uint32Array>
  runCompletion(ids: Uint32Array, params: CompletionParams, options: CallOptions): AsyncIterable<CompletionEvent>
}
