import { invalidRequest } from '../../wire/errors.js'
import { tokenIdSchema } from '../../wire/json-schema.js'
import { openAiErrors } from '../../wire/openai/errors.js'
import { readSampling, readStream } from '../../wire/openai/sampling.js'
import { framesSchema } from '../../wire/openai/stream.js'
import type { AnswerOperation, Protocol, ReadContext, Reading } from '../protocol.js'
import { completionAnswer } from './answer.js'
import { textChunkSchema, textCompletionSchema } from './answer-schema.js'
import { completionExamples, completionStream } from './examples.js'
import { completionRequestSchema, completionValidator, type CompletionBody } from './schema.js'

const create: AnswerOperation = {
  kind: 'answer',
  operationId: 'createCompletion',
  summary: 'Go on with a raw prompt',
  description: 'The prompt goes to the model untouched: no chat template, no reasoning, no parsing of tool calls.',
  request: completionValidator,
  examples: () => completionExamples,
  whole: textCompletionSchema,
  chunks: {
    schema: textChunkSchema,
    frames: framesSchema('CompletionChunk', textChunkSchema),
    example: completionStream,
  },
  read(body: CompletionBody, { defaults, model, vocabSize }: ReadContext): Reading {
    const { stream, includeUsage } = readStream(body)
    return {
      work: { kind: 'raw', prompt: readPrompt(body.prompt, vocabSize), params: readSampling(body, defaults) },
      stream,
      answer: () => completionAnswer(model, includeUsage),
    }
  },
}

/** The prompt is text still to be encoded, or ids, which `vocabSize` bounds. */
function readPrompt(prompt: CompletionBody['prompt'], vocabSize: number): string | Uint32Array {
  if (typeof prompt === 'string') return prompt
  const [first] = prompt
  if (typeof first === 'string') return first
  const list = (Array.isArray(first) ? first : prompt) as readonly number[]
  const wrong = list.findIndex((id) => id >= vocabSize)
  if (wrong !== -1) throw invalidRequest(`prompt[${wrong}] must be a token id from 0 to ${vocabSize - 1}`, 'prompt')
  return Uint32Array.from(list)
}

/** The Completions API: raw prompts. */
export const completions: Protocol = {
  name: 'completions',
  endpoints: [{ path: '/v1/completions', promptField: 'prompt', post: create }],
  errors: openAiErrors,
  components: {
    CompletionRequest: completionRequestSchema,
    TokenId: tokenIdSchema,
    Completion: textCompletionSchema,
    CompletionChunk: textChunkSchema,
  },
}
