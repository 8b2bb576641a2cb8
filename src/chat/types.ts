/** One part of a message's content: `text` and `input_text` parts are understood, others are refused. */
export interface ContentPart {
  readonly type: string
  readonly text?: string | undefined
}

/** A function call as the model asked for it. */
export interface ToolCall {
  /** `call_` and 24 random hex digits or more. */
  readonly id: string
  readonly type: 'function'
  /** `arguments` is the model's own JSON text, never parsed and printed again. */
  readonly function: { readonly name: string; readonly arguments: string }
}

/** A call in the history a client sends back: arguments may be JSON text, other text, an object or absent. */
export interface HistoryToolCall {
  readonly id?: string | null | undefined
  readonly type?: string | null | undefined
  readonly function: { readonly name: string; readonly arguments?: unknown }
}

/** A message in the OpenAI shape. Fields not named here are ignored. */
export interface ChatMessage {
  /** `system`, `developer` (read as `system`), `user`, `assistant` or `tool`. */
  readonly role: string
  readonly content?: string | readonly ContentPart[] | null | undefined
  /** Earlier reasoning of an assistant message; `reasoning` is read where this is missing. */
  readonly reasoning_content?: string | null | undefined
  readonly reasoning?: string | null | undefined
  readonly tool_calls?: readonly HistoryToolCall[] | null | undefined
  readonly tool_call_id?: string | null | undefined
  readonly name?: string | null | undefined
}

/** A tool the model may call: `parameters` is a JSON schema, shown to the model as it is. */
export interface Tool {
  readonly type: 'function'
  readonly function: { readonly name: string; readonly description?: unknown; readonly parameters?: unknown }
}

/** Which tools are shown: none, all, or the named one. The choice is not otherwise enforced. */
export type ToolChoice =
  'none' | 'auto' | 'required' | { readonly type: 'function'; readonly function: { readonly name: string } }

/** What shapes the drawing of tokens; the defaults are the engine's. */
export interface SamplingParams {
  readonly maxTokens?: number | undefined
  readonly temperature?: number | undefined
  readonly topK?: number | undefined
  readonly topP?: number | undefined
  readonly repetitionPenalty?: number | undefined
  readonly seed?: number | bigint | undefined
  /** Strings that end the answer, matched on the raw text, reasoning included; never part of the output. */
  readonly stop?: string | readonly string[] | null | undefined
}

/** What is put before the model, as far as the prompt goes. */
export interface PromptParams {
  readonly messages: readonly ChatMessage[]
  readonly tools?: readonly Tool[] | null | undefined
  readonly toolChoice?: ToolChoice | null | undefined
  /** False closes the reasoning block in the prompt, so the answer starts at once [true]. */
  readonly enableThinking?: boolean | undefined
  /** More variables for the template; they reach it as data. `enable_thinking` in here wins over `enableThinking`. */
  readonly chatTemplateKwargs?: Readonly<Record<string, unknown>> | null | undefined
}

/** What the content of an answer has to be; reasoning before it is free. */
export type Constraint =
  /** One JSON object or list. */
  | { readonly type: 'json' }
  /** JSON that the schema accepts. */
  | { readonly type: 'json_schema'; readonly schema: Readonly<Record<string, unknown>> | boolean }
  /** A text that the whole of the regular expression matches. */
  | { readonly type: 'regex'; readonly pattern: string }
  /** One of these texts. */
  | { readonly type: 'choice'; readonly choices: readonly string[] }
  /** A text of this grammar, in Lark's or GBNF's notation. */
  | { readonly type: 'grammar'; readonly grammar: string }

/** What an answer is held to while it is generated. */
export interface ConstraintParams {
  readonly constraint?: Constraint | undefined
  /** Names of the tools whose calls must have arguments that fit their `parameters`. */
  readonly strictTools?: readonly string[] | undefined
}

/** A chat request. */
export interface ChatParams extends PromptParams, SamplingParams, ConstraintParams {}

/** A raw completion request; the prompt is passed beside it. */
export type CompletionParams = SamplingParams

/** A rendered and encoded prompt. */
export interface PreparedPrompt {
  readonly ids: Uint32Array
  readonly text: string
  /** Positions worth keeping a reusable state of: where the generation prompt's turn and the turn before it start. */
  readonly snapshotAt: readonly number[]
  /** Whether the prompt leaves a reasoning block open, so that the answer starts inside it. */
  readonly thinking: boolean
}

/** Token counts of one answer. */
export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Prompt tokens whose KV entries were reused. */
  readonly cachedTokens: number
  /** Generated tokens before the one that completes `</think>`. */
  readonly reasoningTokens: number
}

/** A piece of an answer; pieces join without a separator. Text is never empty. */
export type ChatPart =
  | { readonly type: 'reasoning'; readonly text: string }
  | { readonly type: 'content'; readonly text: string }
  | { readonly type: 'tool_call'; readonly call: ToolCall }

/** What a chat yields: parts, then exactly one finish. */
export type ChatEvent = ChatPart | ChatFinish

/** The last event of a chat. */
export interface ChatFinish {
  readonly type: 'finish'
  readonly reason: 'stop' | 'length' | 'tool_calls'
  /** The stop string that ended the answer, if one did. */
  readonly stop?: string
  readonly usage: Usage
}

/** What a raw completion yields: text, then exactly one finish. */
export type CompletionEvent =
  { readonly type: 'content'; readonly text: string } | (ChatFinish & { readonly reason: 'stop' | 'length' })
