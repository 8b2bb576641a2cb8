import type { ChatMessage, Tool } from '../chat/types.js'
import { weather } from './examples.js'

/** A JSON Schema (2020-12, the dialect of OpenAPI 3.1). */
export type JsonSchema = Readonly<Record<string, unknown>>

/** Null stands for an absent field wherever a field is optional. Descriptions and examples go into the API document. */
function optional(
  type: string | readonly string[],
  description: string,
  examples: readonly unknown[],
  more: JsonSchema = {},
): JsonSchema {
  return { type: [type, 'null'].flat(), description, examples, ...more }
}

/** A field of which only what changes nothing is accepted. */
function unsupported(type: string | readonly string[], value: unknown, reason = 'is not supported'): JsonSchema {
  const description = `Only ${JSON.stringify(value)} or null: ${reason}.`
  return optional(type, description, [value], { enum: [value, null], 'x-error': reason })
}

const MAX_STOPS = 16
const MAX_STOP_LENGTH = 4096

/** Sampling fields, the same in both kinds of request. */
const sampling: Readonly<Record<string, JsonSchema>> = {
  model: optional(
    'string',
    'Echoed in the answer. Another id than the served one is a 404 under MAPLE_STRICT_MODEL and means nothing otherwise. ' +
      'Absent, null and empty mean the served model.',
    ['maple-preview'],
    // It comes back in every chunk of a stream.
    { maxLength: 1000 },
  ),
  max_tokens: optional(
    'integer',
    'Most tokens to generate, reasoning included. Default MAPLE_MAX_NEW_TOKENS, capped at MAPLE_MAX_NEW_TOKENS_LIMIT and ' +
      'at what is left of the context; an answer cut there has finish_reason length.',
    [64],
    { minimum: 1 },
  ),
  max_completion_tokens: optional('integer', 'Newer name of max_tokens; wins where both are given.', [64], {
    minimum: 1,
  }),
  temperature: optional('number', '0 is greedy, whatever else is set. Default MAPLE_TEMPERATURE.', [0.6, 0], {
    minimum: 0,
    maximum: 2,
  }),
  top_p: optional(
    'number',
    'Draw from the smallest set of tokens whose mass reaches this. Default MAPLE_TOP_P.',
    [0.95],
    { exclusiveMinimum: 0, maximum: 1 },
  ),
  top_k: optional(
    'integer',
    'Draw from the k likeliest tokens; 0, -1 and more than the vocabulary turn it off. Default MAPLE_TOP_K.',
    [20, -1],
    { minimum: -1 },
  ),
  repetition_penalty: optional(
    'number',
    'Above 1 discourages tokens of the prompt and the answer so far. 1 is off, and the default.',
    [1.1],
    { exclusiveMinimum: 0 },
  ),
  seed: optional(
    'integer',
    'Same seed and same request, same answer, whatever else the server is doing. Folded to 64 bits. Random by default.',
    [42],
  ),
  stop: optional(
    ['string', 'array'],
    'Ends the answer where one of these occurs in the raw text, reasoning included; what was found is not sent. Empty ' +
      'ones are ignored.',
    ['\n\n', ['END', '###']],
    { maxLength: MAX_STOP_LENGTH, maxItems: MAX_STOPS, items: { type: 'string', maxLength: MAX_STOP_LENGTH } },
  ),
  stream: optional('boolean', 'Answer as server-sent events, ended by data: [DONE].', [true]),
  stream_options: optional('object', 'Read only together with stream.', [{ include_usage: true }], {
    properties: {
      include_usage: optional('boolean', 'Send token counts in a last chunk before [DONE].', [true]),
    },
  }),
  n: unsupported('integer', 1, 'must be 1'),
  presence_penalty: optional('number', 'Accepted and ignored.', [0.5]),
  frequency_penalty: optional('number', 'Accepted and ignored.', [0.5]),
  user: optional('string', 'Accepted and ignored.', ['someone']),
}

const PART_TYPES = ['text', 'input_text']

/** One part of a message's content. */
export const textPartSchema: JsonSchema = {
  type: 'object',
  description: 'A piece of text. Pictures, sounds and files are refused: the model reads text only.',
  required: ['type'],
  properties: {
    type: {
      type: 'string',
      description: 'text, or input_text, which means the same.',
      enum: PART_TYPES,
      examples: PART_TYPES,
      'x-error': 'must be "text": this model reads text only',
    },
    text: { description: 'The text: a string.', examples: ['What is 17 * 23?'] },
  },
  // Of an unknown part the type is what is wrong.
  if: { properties: { type: { enum: PART_TYPES } } },
  then: { required: ['text'], properties: { text: { type: 'string' } } },
}

/** A call of an earlier assistant message. */
export const historyToolCallSchema: JsonSchema = {
  type: 'object',
  description: 'A call that the assistant made.',
  required: ['function'],
  properties: {
    id: optional('string', 'Id that a tool message refers to.', ['call_3f2a9c']),
    function: {
      type: 'object',
      description: 'What was called, and with what.',
      required: ['name'],
      properties: {
        name: { type: 'string', description: 'Name of the function.', examples: ['get_weather'] },
        arguments: optional(
          ['string', 'object'],
          'JSON text, or the object itself; null means {}. Text that is not JSON reaches the template as it is.',
          ['{"city": "Lagos"}', { city: 'Lagos' }],
        ),
      },
      examples: [{ name: 'get_weather', arguments: '{"city": "Lagos"}' }],
    },
  },
}

const ROLES = ['system', 'developer', 'user', 'assistant', 'tool']

/** One message of a conversation. */
export const messageSchema: JsonSchema = {
  type: 'object',
  description:
    'A message. Fields that are not named here are ignored, so an answer can be sent back as it came. Spellings of the ' +
    "model's control tokens are read as plain text.",
  required: ['role'],
  properties: {
    role: {
      type: 'string',
      description: 'developer is read as system. System messages stay where they stand.',
      enum: ROLES,
      examples: ROLES,
    },
    content: optional(
      ['string', 'array'],
      'Text, or text parts that are joined without a separator. System, developer and user messages must have it; of ' +
        'assistant and tool messages null is empty text.',
      ['What is 17 * 23?', [{ type: 'text', text: 'What is 17 * 23?' }]],
      { items: textPartSchema },
    ),
    reasoning_content: optional('string', 'Reasoning of an earlier assistant message.', ['17 * 23 = 391.']),
    reasoning: optional('string', 'Read where reasoning_content is missing.', ['17 * 23 = 391.']),
    tool_calls: optional(
      'array',
      'Calls of an earlier assistant message.',
      [[{ id: 'call_3f2a9c', type: 'function', function: { name: 'get_weather', arguments: '{"city": "Lagos"}' } }]],
      { items: historyToolCallSchema },
    ),
    tool_call_id: optional('string', 'The call that a tool message answers.', ['call_3f2a9c']),
  },
  if: { properties: { role: { enum: ['system', 'developer', 'user'] } }, required: ['role'] },
  then: { required: ['content'], properties: { content: { type: ['string', 'array'] } } },
}

/** One function the model may call. */
export const toolSchema: JsonSchema = {
  type: 'object',
  description: 'A function the model may call.',
  required: ['type', 'function'],
  properties: {
    type: { type: 'string', description: 'Always function.', const: 'function', examples: ['function'] },
    function: {
      type: 'object',
      description: 'Shown to the model as it is, fields that are not named here included.',
      required: ['name'],
      properties: {
        name: { type: 'string', description: 'Name of the function.', minLength: 1, examples: ['get_weather'] },
        description: optional('string', 'What the function does, for the model to read.', ['The weather of a city.']),
        parameters: optional('object', 'JSON Schema of the arguments.', [weather.function.parameters]),
      },
      examples: [weather.function],
    },
  },
  examples: [weather],
}

/** Body of `POST /v1/chat/completions`. Fields that are not named here are ignored. */
export const chatRequestSchema: JsonSchema = {
  type: 'object',
  description: 'Fields that are not named here are ignored, so newer clients keep working.',
  required: ['messages'],
  properties: {
    messages: {
      type: 'array',
      description: 'The conversation so far; at least one message.',
      minItems: 1,
      items: messageSchema,
      examples: [[{ role: 'user', content: 'What is 17 * 23?' }]],
    },
    ...sampling,
    tools: optional('array', "Functions the model may call, rendered through the model's own template.", [[weather]], {
      items: toolSchema,
    }),
    tool_choice: {
      description:
        'none hides the tools; a named function, which must be among them, leaves only that one to see; auto and ' +
        'required show all. Not enforced beyond that.',
      examples: ['auto', 'none', 'required', { type: 'function', function: { name: 'get_weather' } }],
      'x-error': 'must be "none", "auto", "required" or {"type": "function", "function": {"name": ...}}',
      anyOf: [
        { type: 'string', enum: ['none', 'auto', 'required'] },
        { type: 'null' },
        {
          type: 'object',
          required: ['type', 'function'],
          properties: {
            type: { type: 'string', description: 'Always function.', const: 'function' },
            function: {
              type: 'object',
              description: 'The function that the model gets to see.',
              required: ['name'],
              properties: { name: { type: 'string', description: 'Its name.' } },
            },
          },
        },
      ],
    },
    chat_template_kwargs: optional(
      'object',
      'More variables for the chat template; they reach it as data. messages, tools and add_generation_prompt are refused.',
      [{ enable_thinking: false }],
      {
        properties: {
          enable_thinking: {
            type: 'boolean',
            description: 'false closes the reasoning block at once. Default MAPLE_ENABLE_THINKING.',
            examples: [false],
          },
          messages: false,
          tools: false,
          add_generation_prompt: false,
        },
      },
    ),
    include_reasoning: optional(
      'boolean',
      'false leaves reasoning_content out of the answer; the model reasons all the same. Default MAPLE_INCLUDE_REASONING.',
      [false],
    ),
    response_format: optional(
      'object',
      'text, or json_object, which is accepted and not enforced. json_schema is refused.',
      [{ type: 'text' }],
      {
        required: ['type'],
        properties: {
          type: {
            type: 'string',
            description: 'text or json_object.',
            enum: ['text', 'json_object'],
            examples: ['json_object'],
          },
        },
      },
    ),
    logprobs: unsupported('boolean', false),
    top_logprobs: unsupported('integer', 0),
  },
}

/** A token of a raw prompt. Which ids there are, the model says. */
export const tokenIdSchema: JsonSchema = { type: 'integer', description: 'Id of a token.', minimum: 0 }

/** Body of `POST /v1/completions`. */
export const completionRequestSchema: JsonSchema = {
  type: 'object',
  description: 'Fields that are not named here are ignored, so newer clients keep working.',
  required: ['prompt'],
  properties: {
    prompt: {
      description:
        'Goes to the model untouched: no template, no reasoning, no parsing. A text, a list of one text, a list of token ' +
        'ids, or a list of one such list. Spellings of control tokens in a text become those tokens.',
      examples: ['Once upon a time', ['Once upon a time'], [72, 101, 108], [[72, 101, 108]]],
      'x-error': 'must be one prompt that is not empty: a text, a list of one text, or a list of token ids',
      anyOf: [
        { type: 'string', minLength: 1 },
        { type: 'array', minItems: 1, maxItems: 1, items: { type: 'string', minLength: 1 } },
        { type: 'array', minItems: 1, items: tokenIdSchema },
        {
          type: 'array',
          minItems: 1,
          maxItems: 1,
          items: { type: 'array', minItems: 1, items: tokenIdSchema },
        },
      ],
    },
    ...sampling,
    echo: unsupported('boolean', false),
    suffix: unsupported('string', ''),
    best_of: unsupported('integer', 1, 'must be 1'),
    logprobs: unsupported(['boolean', 'integer'], false),
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
  readonly prompt: string | readonly [string] | readonly number[] | readonly [readonly number[]]
}

export type { SamplingBody }
