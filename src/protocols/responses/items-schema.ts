import { optional, type JsonSchema } from '../../wire/json-schema.js'

const TEXT_TYPES = ['input_text', 'output_text', 'text']

/** One part of a message's content. */
export const inputPartSchema: JsonSchema = {
  type: 'object',
  description: 'A piece of text. Pictures and files are refused: the model reads text only.',
  required: ['type'],
  properties: {
    type: {
      type: 'string',
      description: 'input_text, output_text or text, which mean the same, or refusal.',
      enum: [...TEXT_TYPES, 'refusal'],
      examples: TEXT_TYPES,
      'x-error': 'must be "input_text", "output_text", "text" or "refusal": this model reads text only',
    },
    text: { description: 'The text: a string.', examples: ['What is 17 * 23?'] },
    refusal: { description: 'Of a refusal: its text.', examples: ['No.'] },
  },
  // Of an unknown part the type is what is wrong.
  allOf: [
    {
      if: { properties: { type: { enum: TEXT_TYPES } } },
      then: { required: ['text'], properties: { text: { type: 'string' } } },
    },
    {
      if: { properties: { type: { const: 'refusal' } } },
      then: { required: ['refusal'], properties: { refusal: { type: 'string' } } },
    },
  ],
}

const OUTPUT_TYPES = [...TEXT_TYPES, 'refusal', 'input_image', 'input_file']

/** One part of a tool's output. */
export const outputPartSchema: JsonSchema = {
  type: 'object',
  description: 'A piece of text, or a picture or file, of which the model reads only that it was left out.',
  required: ['type'],
  properties: {
    type: {
      type: 'string',
      description: 'input_text, or another type of the Responses API.',
      enum: OUTPUT_TYPES,
      examples: ['input_text'],
    },
    text: { description: 'The text: a string.', examples: ['31 °C'] },
    refusal: { description: 'Of a refusal: its text.', examples: ['No.'] },
  },
  allOf: inputPartSchema['allOf'],
}

const reasoningPartSchema: JsonSchema = {
  type: 'object',
  description: 'A piece of reasoning.',
  required: ['text'],
  properties: { text: { type: 'string', description: 'The text.', examples: ['17 * 23 = 391.'] } },
}

/** Types of items; a message may leave its type out. */
export const ITEM_TYPES = [
  'message',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
  'reasoning',
  'item_reference',
] as const

const ROLES = ['system', 'developer', 'user', 'assistant', 'tool']

function when(types: readonly string[], then: JsonSchema): JsonSchema {
  return { if: { required: ['type'], properties: { type: { enum: types } } }, then }
}

const string = { type: 'string' }

/** One item of the input. */
export const inputItemSchema: JsonSchema = {
  type: 'object',
  description:
    'A message, a call, what a call gave, or reasoning. Fields that are not named here are ignored, so the output of an answer can ' +
    'be sent back as it came. Calls and the message and reasoning beside them are one turn of the assistant.',
  properties: {
    type: optional('string', 'What it is; a message where it is absent.', ['message'], {
      enum: [...ITEM_TYPES, null],
    }),
    role: {
      description: 'Of a message: system, developer (read as system), user, assistant or tool.',
      examples: ['user'],
    },
    content: {
      description: 'Of a message: a text or text parts, joined without a separator. Of reasoning: its parts.',
      examples: ['What is 17 * 23?', [{ type: 'input_text', text: 'What is 17 * 23?' }]],
    },
    call_id: { description: 'Of a call and its output: what joins them.', examples: ['call_3f2a9c'] },
    name: { description: 'Of a call: the tool.', examples: ['get_weather'] },
    arguments: { description: 'Of a function_call: JSON text.', examples: ['{"city": "Lagos"}'] },
    input: { description: 'Of a custom_tool_call: its text.', examples: ['ls'] },
    output: {
      description:
        "Of a call's output: a text or parts. In the place of a picture the model reads that it was left out.",
      examples: ['31 °C', [{ type: 'input_text', text: '31 °C' }]],
    },
    id: {
      description:
        'Of an item_reference: what it refers to. Nothing is kept here, so references to reasoning are left out and others refused.',
      examples: ['rs_0123456789abcdef01234567'],
    },
  },
  allOf: [
    {
      if: { properties: { type: { enum: ['message', null] } } },
      then: {
        required: ['role'],
        properties: {
          role: { type: 'string', enum: ROLES },
          content: { type: ['string', 'array', 'null'], items: inputPartSchema },
        },
        if: { properties: { role: { enum: ['system', 'developer', 'user'] } } },
        then: { required: ['content'], properties: { content: { type: ['string', 'array'] } } },
      },
    },
    when(['function_call'], {
      required: ['call_id', 'name', 'arguments'],
      properties: { call_id: string, name: string, arguments: string },
    }),
    when(['custom_tool_call'], {
      required: ['call_id', 'name', 'input'],
      properties: { call_id: string, name: string, input: string },
    }),
    when(['function_call_output', 'custom_tool_call_output'], {
      required: ['call_id', 'output'],
      properties: { call_id: string, output: { type: ['string', 'array'], items: outputPartSchema } },
    }),
    when(['reasoning'], { properties: { content: { type: ['array', 'null'], items: reasoningPartSchema } } }),
    when(['item_reference'], { required: ['id'], properties: { id: string } }),
  ],
}

export interface InputPart {
  readonly type: string
  readonly text?: string
  readonly refusal?: string
}

export interface MessageInput {
  readonly type?: 'message' | null
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool'
  readonly content?: string | readonly InputPart[] | null
}

/** An item that passed {@link inputItemSchema}. */
export type InputItem =
  | MessageInput
  | { readonly type: 'function_call'; readonly call_id: string; readonly name: string; readonly arguments: string }
  | { readonly type: 'custom_tool_call'; readonly call_id: string; readonly name: string; readonly input: string }
  | {
      readonly type: 'function_call_output' | 'custom_tool_call_output'
      readonly call_id: string
      readonly output: string | readonly InputPart[]
    }
  | { readonly type: 'reasoning'; readonly content?: readonly { readonly text: string }[] | null }
  | { readonly type: 'item_reference'; readonly id: string }
