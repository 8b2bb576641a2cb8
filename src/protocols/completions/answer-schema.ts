import { answerHead, noLogprobs, usageSchema } from '../../wire/openai/answer.js'
import { constant, object, text, type JsonSchema } from '../../wire/json-schema.js'

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
