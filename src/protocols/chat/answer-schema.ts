import { answerHead, noLogprobs, usageSchema } from '../../wire/openai/answer.js'
import { constant, count, object, text, type JsonSchema } from '../../wire/json-schema.js'

export const toolCallSchema: JsonSchema = object('A function call that the model asks for.', {
  id: text('call_ and 24 hex digits.', { pattern: '^call_[0-9a-f]{24,}$' }),
  type: constant('function', 'Always function.'),
  function: object('What to call, and with what.', {
    name: text('Name of the function.'),
    arguments: text("The model's own JSON text, never parsed and printed again."),
  }),
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
