/** Wire shapes that the OpenAI protocols share. `null` and an absent key are different things. */

/** Body of every error answer. */
export interface ErrorBody {
  readonly error: {
    readonly message: string
    readonly type: 'invalid_request_error' | 'server_error'
    readonly param: string | null
    readonly code: string | null
  }
}

/** Token counts of one answer. */
export interface WireUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
  readonly prompt_tokens_details: { readonly cached_tokens: number }
  readonly completion_tokens_details: { readonly reasoning_tokens: number }
}
