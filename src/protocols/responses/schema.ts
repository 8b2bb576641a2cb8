import { optional, unsupported, type JsonSchema } from '../../wire/json-schema.js'
import { samplingSchema, type SamplingBody } from '../../wire/openai/sampling.js'
import { createValidator, type Validator } from '../../wire/schema.js'
import { weatherTool } from './examples.js'
import { inputItemSchema, type InputItem } from './items-schema.js'

function when(type: string, then: JsonSchema): JsonSchema {
  return { if: { properties: { type: { const: type } } }, then }
}

/** A field that only null is accepted of. */
function absent(reason: string): JsonSchema {
  return { type: 'null', description: `Refused: ${reason}.`, examples: [null], 'x-error': reason }
}

const named = { required: ['name'], properties: { name: { type: 'string', minLength: 1 } } }

/** One tool of a request. */
export const responseToolSchema: JsonSchema = {
  type: 'object',
  description:
    'A function, or a custom tool, which takes one text. Tools of other types (web_search, mcp, ...) need a service behind them and ' +
    'are left out.',
  required: ['type'],
  properties: {
    type: { type: 'string', description: 'function, custom, or another, which is left out.', examples: ['function'] },
    name: { description: 'Name of the function or custom tool.', examples: ['get_weather'] },
    description: { description: 'What it does, for the model to read.', examples: ['The weather of a city.'] },
    parameters: { description: 'Of a function: JSON Schema of the arguments.', examples: [weatherTool.parameters] },
    strict: {
      description: 'Of a function: whether arguments have to fit the parameters.',
      examples: [false],
    },
    format: {
      description: 'Of a custom tool: text, or a grammar, which is shown to the model.',
      examples: [{ type: 'text' }],
    },
  },
  allOf: [
    when('function', {
      ...named,
      properties: {
        ...named.properties,
        description: { type: ['string', 'null'] },
        parameters: { type: ['object', 'null'] },
        strict: { type: ['boolean', 'null'] },
      },
    }),
    when('custom', {
      ...named,
      properties: {
        ...named.properties,
        description: { type: ['string', 'null'] },
        format: {
          type: ['object', 'null'],
          properties: { syntax: { type: 'string' }, definition: { type: 'string' } },
        },
      },
    }),
  ],
  examples: [weatherTool],
}

const toolChoiceSchema: JsonSchema = {
  description:
    'none hides the tools; a named function or custom tool, which must be among them, leaves only that one to see; allowed_tools ' +
    'leaves those it names; auto and required show all. Not enforced beyond that.',
  examples: ['auto', 'none', 'required', { type: 'function', name: 'get_weather' }],
  'x-error':
    'must be "none", "auto", "required", {"type": "function" or "custom", "name": ...} or {"type": "allowed_tools", "mode": ..., "tools": [...]}',
  anyOf: [
    { type: 'string', enum: ['none', 'auto', 'required'] },
    { type: 'null' },
    {
      type: 'object',
      required: ['type', 'name'],
      properties: {
        type: { type: 'string', description: 'function or custom.', enum: ['function', 'custom'] },
        name: { type: 'string', description: 'Name of the tool.' },
      },
    },
    {
      type: 'object',
      required: ['type', 'tools'],
      properties: {
        type: { type: 'string', description: 'Always allowed_tools.', const: 'allowed_tools' },
        mode: { type: ['string', 'null'], description: 'auto or required.', enum: ['auto', 'required', null] },
        tools: {
          type: 'array',
          description: 'Those the model gets to see.',
          items: {
            type: 'object',
            required: ['type'],
            properties: {
              type: { type: 'string', description: 'As in tools.' },
              name: { type: 'string', description: 'As in tools.' },
            },
          },
        },
      },
    },
  ],
}

const textSchema: JsonSchema = optional('object', 'Of the text of the answer.', [{ format: { type: 'text' } }], {
  properties: {
    format: optional('object', 'What the text has to be.', [{ type: 'text' }], {
      required: ['type'],
      properties: {
        type: {
          type: 'string',
          description: 'text, json_object or json_schema.',
          enum: ['text', 'json_object', 'json_schema'],
          examples: ['text'],
        },
        name: { description: 'Of a json_schema: its name, which changes nothing.', examples: ['answer'] },
        schema: { description: 'Of a json_schema: the schema.', examples: [{ type: 'object' }] },
        strict: { description: 'Of a json_schema: changes nothing, it is always enforced.', examples: [true] },
      },
      ...when('json_schema', { required: ['schema'], properties: { schema: { type: 'object' } } }),
    }),
    verbosity: optional('string', 'Accepted and ignored.', ['medium']),
  },
})

const { model, temperature, top_p, top_k, repetition_penalty, seed, user } = samplingSchema

/** What shapes the prompt, and is read for counting too. */
const promptProperties: Readonly<Record<string, JsonSchema>> = {
  model: model!,
  instructions: optional('string', 'A system message before all others.', ['Answer in one word.']),
  input: {
    type: ['string', 'array'],
    description: 'The conversation: a text, which is one message of the user, or items.',
    items: inputItemSchema,
    examples: ['What is 17 * 23?', [{ role: 'user', content: 'What is 17 * 23?' }]],
  },
  tools: optional('array', "Tools the model may call, rendered through the model's own template.", [[weatherTool]], {
    items: responseToolSchema,
  }),
  tool_choice: toolChoiceSchema,
  reasoning: optional('object', 'How to reason.', [{ effort: 'none' }], {
    properties: {
      effort: optional('string', 'none answers at once; all others reason. Default MAPLE_ENABLE_THINKING.', ['none']),
      summary: optional('string', 'Accepted; no summaries are made, the reasoning itself is in the answer.', ['auto']),
    },
  }),
  text: textSchema,
  chat_template_kwargs: optional(
    'object',
    'More variables for the chat template; they reach it as data. messages, tools and add_generation_prompt are refused.',
    [{ enable_thinking: false }],
    {
      properties: {
        enable_thinking: {
          type: 'boolean',
          description: 'Wins over reasoning.effort.',
          examples: [false],
        },
        messages: false,
        tools: false,
        add_generation_prompt: false,
      },
    },
  ),
  previous_response_id: optional('string', 'Refused: nothing is kept here. Send the whole conversation.', [null]),
  conversation: absent('is not kept here; send the whole conversation as input'),
  truncation: optional('string', 'Accepted; nothing is cut from the input.', ['disabled']),
  parallel_tool_calls: optional('boolean', 'Accepted and ignored.', [true]),
}

/** Body of `POST /v1/responses`. */
export const responseRequestSchema: JsonSchema = {
  type: 'object',
  description: 'Fields that are not named here are ignored, so newer clients keep working.',
  required: ['input'],
  properties: {
    ...promptProperties,
    max_output_tokens: optional(
      'integer',
      'Most tokens to generate, reasoning included. Default MAPLE_MAX_NEW_TOKENS, capped at MAPLE_MAX_NEW_TOKENS_LIMIT and ' +
        'at what is left of the context; an answer cut there is incomplete.',
      [64],
      { minimum: 1 },
    ),
    temperature: temperature!,
    top_p: top_p!,
    top_k: top_k!,
    repetition_penalty: repetition_penalty!,
    seed: seed!,
    include_reasoning: optional(
      'boolean',
      'false leaves reasoning items out of the answer; the model reasons all the same. Default MAPLE_INCLUDE_REASONING.',
      [false],
    ),
    stream: optional('boolean', 'Answer as server-sent events.', [true]),
    stream_options: optional('object', 'Accepted and ignored.', [{ include_obfuscation: false }]),
    store: optional('boolean', 'Accepted; nothing is kept.', [false]),
    metadata: optional('object', 'Comes back in the answer.', [{ topic: 'sums' }]),
    include: optional('array', 'Accepted and ignored.', [['reasoning.encrypted_content']]),
    service_tier: optional('string', 'Comes back in the answer.', ['auto'], { maxLength: 1000 }),
    safety_identifier: optional('string', 'Comes back in the answer.', ['someone'], { maxLength: 1000 }),
    prompt_cache_key: optional('string', 'Comes back in the answer.', ['sums'], { maxLength: 1000 }),
    user: { ...user!, description: 'Comes back in the answer.', maxLength: 1000 },
    prompt: absent('refers to a template, and none is kept here; send the text itself'),
    background: unsupported('boolean', false, 'must be false: answers are not kept to be fetched later'),
    top_logprobs: unsupported('integer', 0, 'must be 0: there are no log probabilities'),
  },
}

/** Body of `POST /v1/responses/input_tokens`. */
export const countRequestSchema: JsonSchema = {
  type: 'object',
  description: 'The fields of a response that shape its prompt; others are ignored.',
  properties: {
    ...promptProperties,
    input: { ...promptProperties['input'], type: ['string', 'array', 'null'] },
  },
}

/** A tool that passed {@link responseToolSchema}; of other types nothing but the type is known. */
export type ResponseTool =
  | {
      readonly type: 'function'
      readonly name: string
      readonly description?: string | null
      readonly parameters?: object | null
      readonly strict?: boolean | null
    }
  | {
      readonly type: 'custom'
      readonly name: string
      readonly description?: string | null
      readonly format?: { readonly syntax?: string; readonly definition?: string } | null
    }

export type ResponseToolChoice =
  | 'none'
  | 'auto'
  | 'required'
  | { readonly type: 'function' | 'custom'; readonly name: string }
  | {
      readonly type: 'allowed_tools'
      readonly mode?: 'auto' | 'required' | null
      readonly tools: readonly { readonly type: string; readonly name?: string }[]
    }

export type TextFormat =
  | { readonly type: 'text' | 'json_object' }
  | { readonly type: 'json_schema'; readonly schema: Readonly<Record<string, unknown>> }

/** A counting request that passed {@link countRequestSchema}. */
export interface CountBody {
  readonly model?: string | null
  readonly instructions?: string | null
  readonly input?: string | readonly InputItem[] | null
  readonly tools?: readonly (ResponseTool | { readonly type: string })[] | null
  readonly tool_choice?: ResponseToolChoice | null
  readonly reasoning?: { readonly effort?: string | null; readonly summary?: string | null } | null
  readonly text?: { readonly format?: TextFormat | null; readonly verbosity?: string | null } | null
  readonly chat_template_kwargs?: Readonly<Record<string, unknown>> | null
  readonly previous_response_id?: string | null
  readonly truncation?: string | null
  readonly parallel_tool_calls?: boolean | null
}

/** A request that passed {@link responseRequestSchema}. */
export interface ResponseBody
  extends CountBody, Pick<SamplingBody, 'temperature' | 'top_p' | 'top_k' | 'repetition_penalty' | 'seed' | 'stream'> {
  readonly max_output_tokens?: number | null
  readonly include_reasoning?: boolean | null
  readonly metadata?: object | null
  readonly service_tier?: string | null
  readonly safety_identifier?: string | null
  readonly prompt_cache_key?: string | null
  readonly user?: string | null
}

/** An item and a tool are named as a whole, and so are fields of alternatives. */
function blame(path: readonly string[]): readonly string[] {
  const [root, index] = path
  if ((root === 'input' || root === 'tools') && index !== undefined) return path.slice(0, 2)
  if (root === 'tool_choice') return path.slice(0, 1)
  if (root === 'text') return path.slice(0, 2)
  return path
}

export const responseValidator: Validator<ResponseBody> = createValidator(responseRequestSchema, blame)
export const countValidator: Validator<CountBody> = createValidator(countRequestSchema, blame)
