import type { JsonSchema } from './schemas.js'

/** Schemas of answers, for the API document. What clients may rely on is required; more may be added in time. */

function object(description: string, properties: Record<string, JsonSchema>, optional: string[] = []): JsonSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name))
  return { type: 'object', description, required, properties }
}

function text(description: string, more: JsonSchema = {}): JsonSchema {
  return { type: 'string', description, ...more }
}

function count(description: string): JsonSchema {
  return { type: 'integer', minimum: 0, description }
}

function constant(value: unknown, description: string): JsonSchema {
  return { const: value, description }
}

const noLogprobs = constant(null, 'Always null.')

export const usageSchema: JsonSchema = object('Token counts of one answer.', {
  prompt_tokens: count('Tokens of the prompt, template included.'),
  completion_tokens: count('Tokens generated, reasoning included.'),
  total_tokens: count('Both together.'),
  prompt_tokens_details: object('Of the prompt tokens:', {
    cached_tokens: count('Those whose keys and values were still there from an earlier request.'),
  }),
  completion_tokens_details: object('Of the generated tokens:', {
    reasoning_tokens: count('Those before the one that completes </think>.'),
  }),
})

export const toolCallSchema: JsonSchema = object('A function call that the model asks for.', {
  id: text('call_ and 24 hex digits.', { pattern: '^call_[0-9a-f]{24,}$' }),
  type: constant('function', 'Always function.'),
  function: object('What to call, and with what.', {
    name: text('Name of the function.'),
    arguments: text("The model's own JSON text, never parsed and printed again."),
  }),
})

const answerHead = (prefix: string, kind: string): Record<string, JsonSchema> => ({
  id: text(`${prefix} and 24 hex digits.`, { pattern: `^${prefix}[0-9a-f]{24,}$` }),
  object: constant(kind, 'What this is.'),
  created: count('Unix time in seconds.'),
  model: text("The request's model, or the served one where the request named none."),
})

const chatFinish = 'stop, length (the token limit or the context cut it) or tool_calls'

/** Answer of a chat. */
export const chatCompletionSchema: JsonSchema = object('A whole answer.', {
  ...answerHead('chatcmpl-', 'chat.completion'),
  choices: {
    type: 'array',
    description: 'Exactly one.',
    minItems: 1,
    maxItems: 1,
    items: object('The answer.', {
      index: constant(0, 'Always 0.'),
      message: object(
        'The message of the assistant.',
        {
          role: constant('assistant', 'Always assistant.'),
          content: {
            type: ['string', 'null'],
            description:
              'Text after the reasoning. null when the answer was only tool calls; empty when max_tokens cut inside the reasoning.',
          },
          reasoning_content: text(
            'Text before </think>. Absent where there was none, and with include_reasoning: false.',
          ),
          tool_calls: {
            type: 'array',
            description: 'Absent where there was none.',
            minItems: 1,
            items: toolCallSchema,
          },
        },
        ['reasoning_content', 'tool_calls'],
      ),
      logprobs: noLogprobs,
      finish_reason: { enum: ['stop', 'length', 'tool_calls'], description: `${chatFinish}.` },
    }),
  },
  usage: usageSchema,
})

/** Event of a streamed chat. */
export const chatChunkSchema: JsonSchema = object(
  'One event of a streamed answer. The first has the role; the last before usage and [DONE] has an empty delta and the finish_reason.',
  {
    ...answerHead('chatcmpl-', 'chat.completion.chunk'),
    choices: {
      type: 'array',
      description: 'One; none in the usage chunk.',
      maxItems: 1,
      items: object('A piece of the answer.', {
        index: constant(0, 'Always 0.'),
        delta: object(
          'What this chunk adds to the message.',
          {
            role: constant('assistant', 'In the first chunk only.'),
            content: text('More content.'),
            reasoning_content: text('More reasoning.'),
            tool_calls: {
              type: 'array',
              description: 'One whole call, once its block has closed.',
              minItems: 1,
              maxItems: 1,
              items: {
                allOf: [toolCallSchema],
                required: ['index'],
                properties: { index: count('Which call of the message this is.') },
              },
            },
          },
          ['role', 'content', 'reasoning_content', 'tool_calls'],
        ),
        logprobs: noLogprobs,
        finish_reason: { enum: ['stop', 'length', 'tool_calls', null], description: `null, then ${chatFinish}.` },
      }),
    },
    usage: {
      description: 'Only with stream_options.include_usage: null until the last chunk.',
      anyOf: [usageSchema, { type: 'null' }],
    },
  },
  ['usage'],
)

const textFinish = 'stop or length (the token limit or the context cut it)'

/** Answer of a raw completion. */
export const textCompletionSchema: JsonSchema = object('A whole continuation.', {
  ...answerHead('cmpl-', 'text_completion'),
  choices: {
    type: 'array',
    description: 'Exactly one.',
    minItems: 1,
    maxItems: 1,
    items: object('The continuation.', {
      index: constant(0, 'Always 0.'),
      text: text('What follows the prompt.'),
      logprobs: noLogprobs,
      finish_reason: { enum: ['stop', 'length'], description: `${textFinish}.` },
    }),
  },
  usage: usageSchema,
})

/** Event of a streamed raw completion. */
export const textChunkSchema: JsonSchema = object(
  'One event of a streamed continuation. The one with the finish_reason has empty text.',
  {
    ...answerHead('cmpl-', 'text_completion'),
    choices: {
      type: 'array',
      description: 'One; none in the usage chunk.',
      maxItems: 1,
      items: object('A piece of the continuation.', {
        index: constant(0, 'Always 0.'),
        text: text('More text.'),
        logprobs: noLogprobs,
        finish_reason: { enum: ['stop', 'length', null], description: `null, then ${textFinish}.` },
      }),
    },
    usage: {
      description: 'Only with stream_options.include_usage: null until the last chunk.',
      anyOf: [usageSchema, { type: 'null' }],
    },
  },
  ['usage'],
)

export const modelSchema: JsonSchema = object('The model that is served.', {
  id: text('MAPLE_MODEL_ID. May hold slashes.'),
  object: constant('model', 'What this is.'),
  created: count('Unix time in seconds at which the server started.'),
  owned_by: constant('deepgrove', 'Who made it.'),
})

export const modelListSchema: JsonSchema = object('A list of the one model.', {
  object: constant('list', 'What this is.'),
  data: { type: 'array', description: 'One entry.', minItems: 1, maxItems: 1, items: modelSchema },
})

const healthHead = {
  model: text('MAPLE_MODEL_ID.'),
  model_path: text('Where the weights come from: a repo id, a folder or a file.'),
}
const healthTail = {
  queue_depth: count('Requests that wait for a slot.'),
  active: count('Requests that hold a slot.'),
  version: text('Version of the server.'),
}

/** `/health` with status 200. */
export const healthSchema: JsonSchema = {
  description: 'The model is there, or on its way.',
  anyOf: [
    object('The model is there.', {
      status: constant('ok', 'Requests are answered.'),
      ...healthHead,
      device: constant('cpu', 'Where the model runs.'),
      dtype: text('The numeric mode, and how many experts are packed.'),
      attention: text('The code path of the attention.'),
      simd: text('The kernel set that was picked at run time.'),
      context_length: count('Most tokens of prompt and answer together.'),
      load_seconds: { type: 'number', minimum: 0, description: 'What loading took.' },
      ...healthTail,
    }),
    object('The model is being loaded; requests get 503 model_loading.', {
      status: constant('loading', 'Not yet.'),
      ...healthHead,
      phase: {
        enum: ['download', 'convert', 'load', null],
        description: 'What is being done; null where nothing is known yet.',
      },
      loaded_bytes: count('Bytes done of the phase.'),
      total_bytes: count('Bytes of the phase in all; 0 where this is not known.'),
      ...healthTail,
    }),
  ],
}

/** `/health` with status 503. */
export const unhealthySchema: JsonSchema = object(
  'There will be no answers: loading failed, or the server is stopping.',
  {
    status: { enum: ['error', 'shutting_down'], description: 'error: loading failed. shutting_down: after SIGTERM.' },
    message: text('Why loading failed. Absent when the server is stopping.'),
    ...healthHead,
    ...healthTail,
  },
  ['message'],
)

/** Body of every other error. */
export const errorSchema: JsonSchema = object('An error in the OpenAI shape.', {
  error: object('What went wrong.', {
    message: text('For people; names the field, what was expected, and what to do.'),
    type: { enum: ['invalid_request_error', 'server_error'], description: 'Whose mistake it is.' },
    param: { type: ['string', 'null'], description: 'The field at fault, for example messages[2].' },
    code: { type: ['string', 'null'], description: 'A word that programs can branch on.' },
  }),
})
