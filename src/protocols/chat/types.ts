import type { WireUsage } from '../../wire/openai/types.js'

/** A function call in a message; `arguments` is JSON text. */
export interface WireToolCall {
  readonly id: string
  readonly type: 'function'
  readonly function: { readonly name: string; readonly arguments: string }
}

/** The answer of a chat. */
export interface WireMessage {
  readonly role: 'assistant'
  /** Null when the answer was only tool calls. */
  readonly content: string | null
  readonly reasoning_content?: string
  readonly tool_calls?: readonly WireToolCall[]
}

export type ChatFinishReason = 'stop' | 'length' | 'tool_calls'

/** `POST /v1/chat/completions`, not streamed. */
export interface ChatCompletion {
  readonly id: string
  readonly object: 'chat.completion'
  readonly created: number
  readonly model: string
  readonly choices: readonly [
    {
      readonly index: 0
      readonly message: WireMessage
      readonly logprobs: null
      readonly finish_reason: ChatFinishReason
    },
  ]
  readonly usage: WireUsage
}

/** What one chunk adds to the message. */
export interface ChatDelta {
  /** In the first chunk only. */
  readonly role?: 'assistant'
  readonly content?: string
  readonly reasoning_content?: string
  readonly tool_calls?: readonly [WireToolCall & { readonly index: number }]
}

/** One event of a streamed chat. */
export interface ChatCompletionChunk {
  readonly id: string
  readonly object: 'chat.completion.chunk'
  readonly created: number
  readonly model: string
  /** Empty in the usage chunk. */
  readonly choices: readonly {
    readonly index: 0
    readonly delta: ChatDelta
    readonly logprobs: null
    readonly finish_reason: ChatFinishReason | null
  }[]
  /** Only with `stream_options.include_usage`: null until the last chunk. */
  readonly usage?: WireUsage | null
}
