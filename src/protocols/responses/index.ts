import { ApiError, quote } from '../../wire/errors.js'
import { openAiErrors } from '../../wire/openai/errors.js'
import type { AnswerOperation, CountOperation, PlainOperation, Protocol, ReadContext, Reading } from '../protocol.js'
import { responseAnswer } from './answer.js'
import {
  inputTokensSchema,
  outputItemSchema,
  responseEventSchema,
  responseFramesSchema,
  responseSchema,
} from './answer-schema.js'
import { countExamples, responseExamples, responseStream } from './examples.js'
import { inputItemSchema, inputPartSchema, outputPartSchema } from './items-schema.js'
import { readEcho, readPrompt, readResponse } from './read.js'
import {
  countRequestSchema,
  countValidator,
  responseRequestSchema,
  responseToolSchema,
  responseValidator,
  type CountBody,
  type ResponseBody,
} from './schema.js'

const create: AnswerOperation = {
  kind: 'answer',
  operationId: 'createResponse',
  summary: 'Answer a conversation, as the Responses API has it',
  description:
    'The same as a chat in the form that newer OpenAI clients and agents speak. Nothing is kept: each request has the whole ' +
    'conversation, and the output of an answer can be sent back in it as it came.',
  request: responseValidator,
  examples: ({ modelId }) => responseExamples(modelId),
  whole: responseSchema,
  chunks: { schema: responseEventSchema, frames: responseFramesSchema, example: responseStream },
  read(body: ResponseBody, { defaults, model }: ReadContext): Reading {
    const { params, tools } = readResponse(body, defaults)
    const includeReasoning = body.include_reasoning ?? defaults.includeReasoning
    return {
      work: { kind: 'chat', params },
      stream: body.stream ?? false,
      notes: tools.leftOut.map(
        (type) => `Tools of type ${quote(type)} are left out: only functions and custom tools work here.`,
      ),
      answer: () => responseAnswer(readEcho(body, model, params), { includeReasoning, customTools: tools.customTools }),
    }
  },
}

const countTokens: CountOperation = {
  kind: 'count',
  operationId: 'countResponseTokens',
  summary: 'Tokens that the prompt of a response has',
  description: 'Renders and encodes as for an answer, and does not run the model.',
  request: countValidator,
  examples: ({ modelId }) => countExamples(modelId),
  whole: inputTokensSchema,
  read: (body: CountBody, { defaults }: ReadContext) => readPrompt(body, defaults).prompt,
  reply: (tokens) => ({ object: 'response.input_tokens', input_tokens: tokens }),
}

function notKept(operationId: string, summary: string): PlainOperation {
  return {
    kind: 'plain',
    operationId,
    summary,
    description: 'Always 404: nothing is kept.',
    reply({ id = '' }) {
      throw new ApiError(404, `The response ${quote(id)} is not here: this server keeps none.`, { param: 'id' })
    },
  }
}

/** The Responses API, without state. */
export const responses: Protocol = {
  name: 'responses',
  endpoints: [
    { path: '/v1/responses', promptField: 'input', post: create },
    { path: '/v1/responses/input_tokens', promptField: 'input', post: countTokens },
    {
      path: '/v1/responses/{id}',
      promptField: 'input',
      get: notKept('getResponse', 'An earlier response'),
      delete: notKept('deleteResponse', 'Forget an earlier response'),
    },
  ],
  errors: openAiErrors,
  components: {
    ResponseRequest: responseRequestSchema,
    ResponseInputItem: inputItemSchema,
    ResponseInputPart: inputPartSchema,
    ResponseOutputPart: outputPartSchema,
    ResponseTool: responseToolSchema,
    ResponseCountRequest: countRequestSchema,
    Response: responseSchema,
    ResponseOutputItem: outputItemSchema,
    ResponseEvent: responseEventSchema,
    ResponseInputTokens: inputTokensSchema,
  },
}
