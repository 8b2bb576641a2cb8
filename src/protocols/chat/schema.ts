import type { ChatMessage, Tool } from '../../chat/types.js'
import { optional, unsupported, type JsonSchema } from '../../wire/json-schema.js'
import { samplingSchema, type SamplingBody } from '../../wire/openai/sampling.js'
import { createValidator, type Validator } from '../../wire/schema.js'
import { weather } from './examples.js'

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
    ...samplingSchema,
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

/** A chat request that passed {@link chatRequestSchema}. */
export interface ChatBody extends SamplingBody {
  readonly messages: readonly ChatMessage[]
  readonly tools?: readonly Tool[] | null
  readonly tool_choice?: 'none' | 'auto' | 'required' | { type: 'function'; function: { name: string } } | null
  readonly chat_template_kwargs?: Readonly<Record<string, unknown>> | null
  readonly include_reasoning?: boolean | null
}

/** A tool is named as a whole, and a message where its role or a part is wrong. */
function blame(path: readonly string[]): readonly string[] {
  const [root, index, field, ...below] = path
  if (root === 'tools' && index !== undefined) return path.slice(0, 2)
  if (root === 'messages' && (field === 'role' || (field === 'content' && below.length > 0))) return path.slice(0, 2)
  if (root === 'tool_choice' || root === 'response_format' || root === 'stop') return path.slice(0, 1)
  return path
}

export const chatValidator: Validator<ChatBody> = createValidator(chatRequestSchema, blame)
