import { openAiErrors } from '../../wire/openai/errors.js'
import { readStream } from '../../wire/openai/sampling.js'
import { framesSchema } from '../../wire/openai/stream.js'
import type { AnswerOperation, Protocol, ReadContext, Reading } from '../protocol.js'
import { chatAnswer } from './answer.js'
import { chatChunkSchema, chatCompletionSchema, toolCallSchema } from './answer-schema.js'
import { chatExamples, chatStream } from './examples.js'
import { readChat } from './read.js'
import {
  chatRequestSchema,
  chatValidator,
  historyToolCallSchema,
  messageSchema,
  textPartSchema,
  toolSchema,
  type ChatBody,
} from './schema.js'

const create: AnswerOperation = {
  kind: 'answer',
  operationId: 'createChatCompletion',
  summary: 'Answer a conversation',
  description:
    'Renders the conversation through the chat template of the model and reads its output: reasoning up to ' +
    '</think>, content, tool calls. One request runs at a time; others wait, up to MAPLE_MAX_QUEUE_DEPTH of them for ' +
    'up to MAPLE_QUEUE_TIMEOUT seconds. A client that disconnects frees its place at once.',
  request: chatValidator,
  examples: ({ modelId }) => chatExamples(modelId),
  whole: chatCompletionSchema,
  chunks: {
    schema: chatChunkSchema,
    frames: framesSchema('ChatCompletionChunk', chatChunkSchema),
    example: chatStream,
  },
  read(body: ChatBody, { defaults, model }: ReadContext): Reading {
    const { stream, includeUsage } = readStream(body)
    const includeReasoning = body.include_reasoning ?? defaults.includeReasoning
    return {
      work: { kind: 'chat', params: readChat(body, defaults) },
      stream,
      answer: () => chatAnswer({ model, includeUsage, includeReasoning }),
    }
  },
}

/** The Chat Completions API. */
export const chat: Protocol = {
  name: 'chat',
  endpoints: [{ path: '/v1/chat/completions', promptField: 'messages', post: create }],
  errors: openAiErrors,
  components: {
    ChatCompletionRequest: chatRequestSchema,
    ChatMessage: messageSchema,
    TextPart: textPartSchema,
    HistoryToolCall: historyToolCallSchema,
    Tool: toolSchema,
    ChatCompletion: chatCompletionSchema,
    ChatCompletionChunk: chatChunkSchema,
    ToolCall: toolCallSchema,
  },
}
