/** Wire shapes of the Responses API, as in the types of the `openai` package. `null` and an absent key are different things. */

/** Where an item or a response stands. */
export type ItemStatus = 'in_progress' | 'completed' | 'incomplete'

export interface ReasoningText {
  readonly type: 'reasoning_text'
  readonly text: string
}

export interface OutputText {
  readonly type: 'output_text'
  readonly text: string
  readonly annotations: readonly never[]
  readonly logprobs: readonly never[]
}

export interface ReasoningItem {
  readonly id: string
  readonly type: 'reasoning'
  readonly summary: readonly never[]
  readonly content: readonly ReasoningText[]
  readonly status: ItemStatus
}

export interface MessageItem {
  readonly id: string
  readonly type: 'message'
  readonly role: 'assistant'
  readonly content: readonly OutputText[]
  readonly status: ItemStatus
}

export interface FunctionCallItem {
  readonly id: string
  readonly type: 'function_call'
  readonly call_id: string
  readonly name: string
  /** The model's own JSON text. */
  readonly arguments: string
  readonly status: ItemStatus
}

export interface CustomCallItem {
  readonly id: string
  readonly type: 'custom_tool_call'
  readonly call_id: string
  readonly name: string
  readonly input: string
}

export type OutputItem = ReasoningItem | MessageItem | FunctionCallItem | CustomCallItem

/** Token counts of one answer. */
export interface ResponseUsage {
  readonly input_tokens: number
  readonly input_tokens_details: { readonly cached_tokens: number; readonly cache_write_tokens: 0 }
  readonly output_tokens: number
  readonly output_tokens_details: { readonly reasoning_tokens: number }
  readonly total_tokens: number
}

export type ResponseStatus = 'in_progress' | 'completed' | 'incomplete' | 'failed'

/** What of a request its response repeats, with the defaults of what was left out. */
export interface ResponseEcho {
  readonly model: string
  readonly instructions: string | null
  readonly metadata: object
  readonly tools: readonly object[]
  readonly tool_choice: string | object
  readonly parallel_tool_calls: boolean
  readonly temperature: number
  readonly top_p: number
  readonly max_output_tokens: number | null
  readonly reasoning: object
  readonly text: object
  readonly truncation: string
  readonly service_tier: string
  readonly user?: string
  readonly safety_identifier?: string
  readonly prompt_cache_key?: string
}

/** `POST /v1/responses`: the answer, and what the first and last events of a stream hold. */
export interface WireResponse extends ResponseEcho {
  readonly id: string
  readonly object: 'response'
  readonly created_at: number
  readonly completed_at: number | null
  readonly status: ResponseStatus
  readonly background: false
  readonly store: false
  readonly previous_response_id: null
  readonly top_logprobs: 0
  readonly error: { readonly code: 'server_error'; readonly message: string } | null
  readonly incomplete_details: { readonly reason: 'max_output_tokens' } | null
  readonly output: readonly OutputItem[]
  readonly usage: ResponseUsage | null
}

interface OfItem {
  readonly item_id: string
  readonly output_index: number
}
interface OfPart extends OfItem {
  readonly content_index: 0
}

/** An event about the output, before it has its number. */
export type OutputEvent =
  | {
      readonly type: 'response.output_item.added' | 'response.output_item.done'
      readonly output_index: number
      readonly item: OutputItem
    }
  | (OfPart & {
      readonly type: 'response.content_part.added' | 'response.content_part.done'
      readonly part: ReasoningText | OutputText
    })
  | (OfPart & { readonly type: 'response.reasoning_text.delta'; readonly delta: string })
  | (OfPart & { readonly type: 'response.reasoning_text.done'; readonly text: string })
  | (OfPart & {
      readonly type: 'response.output_text.delta'
      readonly delta: string
      readonly logprobs: readonly never[]
    })
  | (OfPart & {
      readonly type: 'response.output_text.done'
      readonly text: string
      readonly logprobs: readonly never[]
    })
  | (OfItem & { readonly type: 'response.function_call_arguments.delta'; readonly delta: string })
  | (OfItem & {
      readonly type: 'response.function_call_arguments.done'
      readonly name: string
      readonly arguments: string
    })
  | (OfItem & { readonly type: 'response.custom_tool_call_input.delta'; readonly delta: string })
  | (OfItem & { readonly type: 'response.custom_tool_call_input.done'; readonly input: string })

/** An event about the response as a whole, before it has its number. */
export interface ResponseEvent {
  readonly type:
    'response.created' | 'response.in_progress' | 'response.completed' | 'response.incomplete' | 'response.failed'
  readonly response: WireResponse
}

/** An event of a stream. */
export type WireEvent = (OutputEvent | ResponseEvent) & { readonly sequence_number: number }
