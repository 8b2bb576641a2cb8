import { tokenIdSchema, unsupported, type JsonSchema } from '../../wire/json-schema.js'
import { samplingSchema, type SamplingBody } from '../../wire/openai/sampling.js'
import { createValidator, type Validator } from '../../wire/schema.js'

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
    ...samplingSchema,
    echo: unsupported('boolean', false),
    suffix: unsupported('string', ''),
    best_of: unsupported('integer', 1, 'must be 1'),
    logprobs: unsupported(['boolean', 'integer'], false),
  },
}

/** A completion request that passed {@link completionRequestSchema}. */
export interface CompletionBody extends SamplingBody {
  readonly prompt: string | readonly [string] | readonly number[] | readonly [readonly number[]]
}

export const completionValidator: Validator<CompletionBody> = createValidator(completionRequestSchema, (path) =>
  path[0] === 'stop' || path[0] === 'prompt' ? path.slice(0, 1) : path,
)
