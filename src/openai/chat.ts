import type { ChatEvent, ChatParams } from '../chat/types.js'
import { invalidRequest, quote } from './errors.js'
import { newAnswer, toWireUsage } from './answer.js'
import { readForm, readSampling, type AnswerForm } from './request.js'
import { chatValidator } from './schema.js'
import type { ChatBody } from './schemas.js'
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatDelta,
  ChatFinishReason,
  RequestDefaults,
  WireToolCall,
  WireUsage,
} from './types.js'

/** A chat request, read. */
export interface ChatRequest extends AnswerForm {
  readonly includeReasoning: boolean
  readonly params: ChatParams
}

/** Checks types and required fields of a body, then the model it names. */
export function openChat(body: unknown, defaults: RequestDefaults): { body: ChatBody; form: AnswerForm } {
  chatValidator.shape(body)
  return { body, form: readForm(body, defaults) }
}

/** Checks the values of an opened body and turns it into parameters. */
export function readChat(body: ChatBody, form: AnswerForm, defaults: RequestDefaults): ChatRequest {
  chatValidator.rules(body)
  const choice = body.tool_choice
  if (typeof choice === 'object' && choice !== null) {
    const { name } = choice.function
    if (!body.tools?.some((tool) => tool.function.name === name)) {
      throw invalidRequest(`tool_choice names ${quote(name)}, which is not among tools`, 'tool_choice')
    }
  }
  return {
    ...form,
    includeReasoning: body.include_reasoning ?? defaults.includeReasoning,
    params: {
      ...readSampling(body, defaults),
      messages: body.messages,
      tools: body.tools?.length ? body.tools : undefined,
      toolChoice: choice ?? undefined,
      enableThinking: defaults.enableThinking,
      chatTemplateKwargs: body.chat_template_kwargs ?? undefined,
    },
  }
}

/** Reads a whole answer into one `chat.completion`. */
export async function collectChat(request: ChatRequest, events: AsyncIterable<ChatEvent>): Promise<ChatCompletion> {
  const { id, created } = newAnswer('chatcmpl')
  let content = ''
  let reasoning = ''
  const calls: WireToolCall[] = []
  for await (const event of events) {
    if (event.type === 'content') content += event.text
    else if (event.type === 'reasoning') reasoning += event.text
    else if (event.type === 'tool_call') calls.push(toWireCall(event.call))
    else {
      return {
        id,
        object: 'chat.completion',
        created,
        model: request.model,
        choices: [
          {
            index: 0,
            message: {
              role: 'assistant',
              content: content === '' && calls.length > 0 ? null : content,
              ...(reasoning !== '' && request.includeReasoning ? { reasoning_content: reasoning } : {}),
              ...(calls.length > 0 ? { tool_calls: calls } : {}),
            },
            logprobs: null,
            finish_reason: event.reason,
          },
        ],
        usage: toWireUsage(event.usage),
      }
    }
  }
  throw new Error('the answer ended without a finish event')
}

/** Turns an answer into chunks. The first one, with the role, comes before the first event is waited for. */
export async function* streamChat(
  request: ChatRequest,
  events: AsyncIterable<ChatEvent>,
): AsyncGenerator<ChatCompletionChunk, void, undefined> {
  const { id, created } = newAnswer('chatcmpl')
  const { model, includeUsage, includeReasoning } = request
  const frame = (choices: ChatCompletionChunk['choices'], usage: WireUsage | null = null): ChatCompletionChunk => ({
    id,
    object: 'chat.completion.chunk',
    created,
    model,
    choices,
    ...(includeUsage ? { usage } : {}),
  })
  const chunk = (delta: ChatDelta, finishReason: ChatFinishReason | null = null): ChatCompletionChunk =>
    frame([{ index: 0, delta, logprobs: null, finish_reason: finishReason }])

  yield chunk({ role: 'assistant', content: '' })
  let calls = 0
  for await (const event of events) {
    if (event.type === 'content') yield chunk({ content: event.text })
    else if (event.type === 'reasoning') {
      if (includeReasoning) yield chunk({ reasoning_content: event.text })
    } else if (event.type === 'tool_call') {
      yield chunk({ tool_calls: [{ index: calls++, ...toWireCall(event.call) }] })
    } else {
      yield chunk({}, event.reason)
      if (includeUsage) yield frame([], toWireUsage(event.usage))
      return
    }
  }
  throw new Error('the answer ended without a finish event')
}

function toWireCall({ id, function: { name, arguments: text } }: WireToolCall): WireToolCall {
  return { id, type: 'function', function: { name, arguments: text } }
}
