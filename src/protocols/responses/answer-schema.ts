import { constant, count, object, text, type JsonSchema } from '../../wire/json-schema.js'

const id = (prefix: string) => text(`${prefix} and 24 hex digits.`, { pattern: `^${prefix}[0-9a-f]{24}$` })
const none = (description: string): JsonSchema => ({ type: 'array', description, maxItems: 0 })
const nothing = (description: string): JsonSchema => constant(null, description)
const status: JsonSchema = {
  enum: ['in_progress', 'completed', 'incomplete'],
  description: 'incomplete: the token limit or the context cut it.',
}

const reasoningTextSchema = object('A piece of reasoning.', {
  type: constant('reasoning_text', 'What this is.'),
  text: text('Text before </think>.'),
})

const outputTextSchema = object('A piece of text.', {
  type: constant('output_text', 'What this is.'),
  text: text('Text after the reasoning.'),
  annotations: none('None.'),
  logprobs: none('None.'),
})

/** One item of an answer. */
export const outputItemSchema: JsonSchema = {
  description: 'Reasoning, text, or a call that the model asks for.',
  anyOf: [
    object('Reasoning.', {
      id: id('rs_'),
      type: constant('reasoning', 'What this is.'),
      summary: none('None is made.'),
      content: {
        type: 'array',
        description: 'One; none when the item is added.',
        maxItems: 1,
        items: reasoningTextSchema,
      },
      status,
    }),
    object('Text.', {
      id: id('msg_'),
      type: constant('message', 'What this is.'),
      role: constant('assistant', 'Always assistant.'),
      content: {
        type: 'array',
        description: 'One; none when the item is added.',
        maxItems: 1,
        items: outputTextSchema,
      },
      status,
    }),
    object('A function call.', {
      id: id('fc_'),
      type: constant('function_call', 'What this is.'),
      call_id: text('What the output of the call has to name.', { pattern: '^call_[0-9a-f]{24,}$' }),
      name: text('Name of the function.'),
      arguments: text("The model's own JSON text, never parsed and printed again."),
      status,
    }),
    object('A call of a custom tool.', {
      id: id('ctc_'),
      type: constant('custom_tool_call', 'What this is.'),
      call_id: text('What the output of the call has to name.', { pattern: '^call_[0-9a-f]{24,}$' }),
      name: text('Name of the tool.'),
      input: text('The text for it.'),
    }),
  ],
}

const usage = object('Token counts of one answer.', {
  input_tokens: count('Tokens of the prompt, template included.'),
  input_tokens_details: object('Of them:', {
    cached_tokens: count('Those whose keys and values were still there from an earlier request.'),
    cache_write_tokens: constant(0, 'Not counted.'),
  }),
  output_tokens: count('Tokens generated, reasoning included.'),
  output_tokens_details: object('Of them:', {
    reasoning_tokens: count('Those before the one that completes </think>.'),
  }),
  total_tokens: count('Both together.'),
})

/** Answer of `POST /v1/responses`. */
export const responseSchema: JsonSchema = object(
  'An answer, or where it stands in a stream.',
  {
    id: id('resp_'),
    object: constant('response', 'What this is.'),
    created_at: count('Unix time in seconds.'),
    completed_at: { type: ['integer', 'null'], description: 'Unix time in seconds; null unless completed.' },
    status: {
      enum: ['in_progress', 'completed', 'incomplete', 'failed'],
      description:
        'incomplete: the token limit or the context cut the answer. in_progress and failed: in streams only.',
    },
    background: constant(false, 'Always false.'),
    error: {
      description: 'Why the answer failed.',
      anyOf: [
        object('The reason.', { code: constant('server_error', 'Always this.'), message: text('For people.') }),
        { type: 'null' },
      ],
    },
    incomplete_details: {
      description: 'Why the answer is incomplete.',
      anyOf: [
        object('The reason.', { reason: constant('max_output_tokens', 'The limit of the request, or the context.') }),
        { type: 'null' },
      ],
    },
    model: text("The request's model, or the served one where the request named none."),
    instructions: { type: ['string', 'null'], description: "The request's." },
    metadata: { type: 'object', description: "The request's." },
    tools: { type: 'array', description: "The request's." },
    tool_choice: { type: ['string', 'object'], description: "The request's, or auto." },
    parallel_tool_calls: { type: 'boolean', description: "The request's, or true." },
    temperature: { type: 'number', description: 'What was used.' },
    top_p: { type: 'number', description: 'What was used.' },
    max_output_tokens: { type: ['integer', 'number', 'null'], description: "The request's." },
    reasoning: { type: 'object', description: "The request's." },
    text: { type: 'object', description: "The request's." },
    truncation: text("The request's, or disabled."),
    service_tier: text("The request's, or default."),
    user: text("The request's."),
    safety_identifier: text("The request's."),
    prompt_cache_key: text("The request's."),
    output: { type: 'array', description: 'Items in the order generated.', items: outputItemSchema },
    previous_response_id: nothing('Always null: nothing is kept.'),
    store: constant(false, 'Always false: nothing is kept.'),
    top_logprobs: constant(0, 'Always 0.'),
    usage: { description: 'null until the answer is over.', anyOf: [usage, { type: 'null' }] },
  },
  ['user', 'safety_identifier', 'prompt_cache_key'],
)

const sequence = { sequence_number: count('Counts the events from 0, without gaps.') }
const outputIndex = { output_index: count('Which item of the output.') }
const ofItem = { item_id: text('Id of the item.'), ...outputIndex }
const ofPart = { ...ofItem, content_index: constant(0, 'Always 0: each item has one part.') }
const logprobs = { logprobs: none('None.') }

function event(types: readonly string[], properties: Record<string, JsonSchema>): JsonSchema {
  return object(types.join(', '), { type: { enum: types, description: 'What this is.' }, ...properties, ...sequence })
}

/** Data of one event of a stream. */
export const responseEventSchema: JsonSchema = {
  description: 'An event of a stream; its event line has its type.',
  anyOf: [
    event(
      ['created', 'in_progress', 'completed', 'incomplete', 'failed'].map((name) => `response.${name}`),
      { response: responseSchema },
    ),
    event(['response.output_item.added', 'response.output_item.done'], { ...outputIndex, item: outputItemSchema }),
    event(['response.content_part.added', 'response.content_part.done'], {
      ...ofPart,
      part: { description: 'The part.', anyOf: [reasoningTextSchema, outputTextSchema] },
    }),
    event(['response.reasoning_text.delta'], { ...ofPart, delta: text('More reasoning.') }),
    event(['response.reasoning_text.done'], { ...ofPart, text: text('All of it.') }),
    event(['response.output_text.delta'], { ...ofPart, delta: text('More text.'), ...logprobs }),
    event(['response.output_text.done'], { ...ofPart, text: text('All of it.'), ...logprobs }),
    event(['response.function_call_arguments.delta'], { ...ofItem, delta: text('All arguments: a call comes whole.') }),
    event(['response.function_call_arguments.done'], {
      ...ofItem,
      name: text('Name of the function.'),
      arguments: text('All arguments.'),
    }),
    event(['response.custom_tool_call_input.delta'], { ...ofItem, delta: text('The whole input.') }),
    event(['response.custom_tool_call_input.done'], { ...ofItem, input: text('The whole input.') }),
  ],
}

/** A stream's frames. */
export const responseFramesSchema: JsonSchema = {
  type: 'object',
  description:
    'Events of two lines each: event: and its type, data: and a ResponseEvent as JSON, with an empty line behind. The last is ' +
    'response.completed, response.incomplete or, where something failed after the first byte, response.failed. In silence ' +
    'comment lines (: keep-alive) come now and then.',
  required: ['event', 'data'],
  properties: {
    event: { type: 'string', description: 'The type of the event.' },
    data: {
      type: 'string',
      description: 'A ResponseEvent.',
      contentMediaType: 'application/json',
      contentSchema: responseEventSchema,
    },
  },
}

/** Answer of `POST /v1/responses/input_tokens`. */
export const inputTokensSchema: JsonSchema = object('The length of a prompt.', {
  object: constant('response.input_tokens', 'What this is.'),
  input_tokens: count('Tokens of the prompt, template included.'),
})
