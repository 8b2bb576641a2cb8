/** Wire shapes of the OpenAI API, as far as this server speaks it. `null` and an absent key are different things. */

/** Body of every error answer. */
export interface ErrorBody {
  readonly error: {
    readonly message: string
    readonly type: 'invalid_request_error' | 'server_error'
    readonly param: string | null
    readonly code: string | null
  }
}

/** What requests fall back to, and the limits they meet; a part of the server's configuration. */
export interface RequestDefaults {
  readonly modelId: string
  readonly strictModel: boolean
  readonly maxNewTokens: number
  readonly maxNewTokensLimit: number
  readonly maxPromptTokens: number
  readonly temperature: number
  readonly topP: number
  readonly topK: number
  readonly enableThinking: boolean
  readonly includeReasoning: boolean
}

/** Token counts of one answer. */
export interface WireUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
  readonly prompt_tokens_details: { readonly cached_tokens: number }
  readonly completion_tokens_details: { readonly reasoning_tokens: number }
}

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

/** `POST /v1/completions`: the whole answer, or one event of a streamed one. */
export interface TextCompletion {
  readonly id: string
  readonly object: 'text_completion'
  readonly created: number
  readonly model: string
  /** Empty in the usage chunk. */
  readonly choices: readonly {
    readonly index: 0
    readonly text: string
    readonly logprobs: null
    readonly finish_reason: 'stop' | 'length' | null
  }[]
  readonly usage?: WireUsage | null
}

/** One entry of `GET /v1/models`. */
export interface WireModel {
  readonly id: string
  readonly object: 'model'
  readonly created: number
  readonly owned_by: string
}
