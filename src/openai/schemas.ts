import type { ChatMessage, Tool } from '../chat/types.js'

/** A JSON Schema (2020-12, the dialect of OpenAPI 3.1). */
export type JsonSchema = Readonly<Record<string, unknown>>

/** Null stands for an absent field wherever a field is optional. */
function optional(type: string | readonly string[], description: string, more: JsonSchema = {}): JsonSchema {
  return { type: [type, 'null'].flat(), description, ...more }
}

const MAX_STOPS = 16
const MAX_STOP_LENGTH = 4096

/** Sampling fields, the same in both kinds of request. */
const sampling: Readonly<Record<string, JsonSchema>> = {
  model: optional('string', 'Echoed in the answer. Checked only when the server runs with MAPLE_STRICT_MODEL.', {
    // It comes back in every chunk of a stream.
    maxLength: 1000,
    examples: ['maple-preview'],
  }),
  max_tokens: optional('integer', 'Most tokens to generate; capped at MAPLE_MAX_NEW_TOKENS_LIMIT.', { minimum: 1 }),
  max_completion_tokens: optional('integer', 'Newer name of max_tokens; wins where both are given.', { minimum: 1 }),
  temperature: optional('number', '0 is greedy, whatever else is set. Default MAPLE_TEMPERATURE.', {
    minimum: 0,
    maximum: 2,
  }),
  top_p: optional('number', 'Smallest set of tokens whose mass reaches this. Default MAPLE_TOP_P.', {
    exclusiveMinimum: 0,
    maximum: 1,
  }),
  top_k: optional('integer', 'Keep the k likeliest tokens; 0 or -1 turns it off. Default MAPLE_TOP_K.', {
    minimum: -1,
  }),
  repetition_penalty: optional('number', 'Above 1 discourages tokens of the prompt and the answer so far.', {
    exclusiveMinimum: 0,
  }),
  seed: optional('integer', 'Same seed, same request, same answer. Folded to 64 bits.'),
  stop: optional(['string', 'array'], 'Ends the answer where one of these occurs; the text found is not sent.', {
    maxLength: MAX_STOP_LENGTH,
    maxItems: MAX_STOPS,
    items: { type: 'string', maxLength: MAX_STOP_LENGTH },
  }),
  stream: optional('boolean', 'Answer as server-sent events.'),
  stream_options: optional('object', 'Read only together with stream.', {
    properties: { include_usage: optional('boolean', 'Send token counts in a last chunk before [DONE].') },
  }),
  n: optional('integer', 'Only one answer a request.', { enum: [1, null], 'x-error': 'must be 1' }),
  presence_penalty: optional('number', 'Accepted and ignored.'),
  frequency_penalty: optional('number', 'Accepted and ignored.'),
  user: optional('string', 'Accepted and ignored.'),
}

const textPart: JsonSchema = {
  type: 'object',
  required: ['type'],
  properties: {
    type: {
      type: 'string',
      enum: ['text', 'input_text'],
      'x-error': 'must be "text": this model reads text only',
    },
  },
  if: { properties: { type: { enum: ['text', 'input_text'] } } },
  then: { required: ['text'], properties: { text: { type: 'string' } } },
}

const historyToolCall: JsonSchema = {
  type: 'object',
  required: ['function'],
  properties: {
    id: optional('string', 'Id that a tool message refers to.'),
    function: {
      type: 'object',
      required: ['name'],
      properties: {
        name: { type: 'string' },
        arguments: optional(['string', 'object'], 'JSON text, or the object itself; null means {}.'),
      },
    },
  },
}

const message: JsonSchema = {
  type: 'object',
  required: ['role'],
  properties: {
    role: { type: 'string', enum: ['system', 'developer', 'user', 'assistant', 'tool'] },
    content: optional(['string', 'array'], 'Text, or text parts that are joined without a separator.', {
      items: textPart,
    }),
    reasoning_content: optional('string', 'Reasoning of an earlier assistant message.'),
    reasoning: optional('string', 'Read where reasoning_content is missing.'),
    tool_calls: optional('array', 'Calls of an earlier assistant message.', { items: historyToolCall }),
    tool_call_id: optional('string', 'The call that a tool message answers.'),
  },
  if: { properties: { role: { enum: ['system', 'developer', 'user'] } }, required: ['role'] },
  then: { required: ['content'], properties: { content: { type: ['string', 'array'] } } },
}

const tool: JsonSchema = {
  type: 'object',
  required: ['type', 'function'],
  properties: {
    type: { type: 'string', const: 'function' },
    function: {
      type: 'object',
      required: ['name'],
      properties: {
        name: { type: 'string', minLength: 1 },
        description: optional('string', 'What the function does, for the model to read.'),
        parameters: optional('object', 'JSON Schema of the arguments, shown to the model as it is.'),
      },
    },
  },
}

/** Body of `POST /v1/chat/completions`. Fields that are not named here are ignored. */
export const chatRequestSchema: JsonSchema = {
  type: 'object',
  required: ['messages'],
  properties: {
    messages: {
      type: 'array',
      description: 'The conversation so far.',
      minItems: 1,
      items: message,
      examples: [[{ role: 'user', content: 'What is 17 * 23?' }]],
    },
    ...sampling,
    tools: optional('array', 'Functions the model may call, rendered through its own template.', { items: tool }),
    tool_choice: {
      description:
        'none hides the tools; a named function leaves only that one to see; auto and required show all. Not enforced.',
      'x-error': 'must be "none", "auto", "required" or {"type": "function", "function": {"name": ...}}',
      anyOf: [
        { type: 'string', enum: ['none', 'auto', 'required'] },
        { type: 'null' },
        {
          type: 'object',
          required: ['type', 'function'],
          properties: {
            type: { type: 'string', const: 'function' },
            function: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
          },
        },
      ],
    },
    chat_template_kwargs: optional('object', 'More variables for the chat template.', {
      properties: {
        enable_thinking: { type: 'boolean', description: 'false closes the reasoning block at once.' },
        messages: false,
        tools: false,
        add_generation_prompt: false,
      },
    }),
    include_reasoning: optional('boolean', 'false leaves reasoning_content out of the answer.'),
    response_format: optional('object', 'text, or json_object, which is accepted and not enforced.', {
      required: ['type'],
      properties: { type: { type: 'string', enum: ['text', 'json_object'] } },
    }),
    logprobs: optional('boolean', 'Not supported.', { enum: [false, null], 'x-error': 'is not supported' }),
    top_logprobs: optional('integer', 'Not supported.', { enum: [0, null], 'x-error': 'is not supported' }),
  },
}

/** Body of `POST /v1/completions`. */
export const completionRequestSchema: JsonSchema = {
  type: 'object',
  required: ['prompt'],
  properties: {
    prompt: {
      type: ['string', 'array'],
      description: 'Raw text, a list of one text, a list of token ids, or a list of one such list.',
      minLength: 1,
      minItems: 1,
      examples: ['Once upon a time'],
    },
    ...sampling,
    echo: optional('boolean', 'Not supported.', { enum: [false, null], 'x-error': 'is not supported' }),
    suffix: optional('string', 'Not supported.', { enum: ['', null], 'x-error': 'is not supported' }),
    best_of: optional('integer', 'Only one answer a request.', { enum: [1, null], 'x-error': 'must be 1' }),
    logprobs: optional(['boolean', 'integer'], 'Not supported.', {
      enum: [false, null],
      'x-error': 'is not supported',
    }),
  },
}

/** Sampling fields after validation. */
interface SamplingBody {
  readonly model?: string | null
  readonly max_tokens?: number | null
  readonly max_completion_tokens?: number | null
  readonly temperature?: number | null
  readonly top_p?: number | null
  readonly top_k?: number | null
  readonly repetition_penalty?: number | null
  readonly seed?: number | bigint | null
  readonly stop?: string | readonly string[] | null
  readonly stream?: boolean | null
  readonly stream_options?: { readonly include_usage?: boolean | null } | null
}

/** A chat request that passed {@link chatRequestSchema}. */
export interface ChatBody extends SamplingBody {
  readonly messages: readonly ChatMessage[]
  readonly tools?: readonly Tool[] | null
  readonly tool_choice?: 'none' | 'auto' | 'required' | { type: 'function'; function: { name: string } } | null
  readonly chat_template_kwargs?: Readonly<Record<string, unknown>> | null
  readonly include_reasoning?: boolean | null
}

/** A completion request that passed {@link completionRequestSchema}. */
export interface CompletionBody extends SamplingBody {
  readonly prompt: string | readonly unknown[]
}

export type { SamplingBody }
