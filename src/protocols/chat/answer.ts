import { textOf, type Answer } from '../../chat/collect.js'
import type { ChatEvent } from '../../chat/types.js'
import { newAnswer, toWireUsage } from '../../wire/openai/answer.js'
import { streamEnds } from '../../wire/openai/stream.js'
import type { WireUsage } from '../../wire/openai/types.js'
import { formatEvent } from '../../wire/sse.js'
import type { AnswerForm } from '../protocol.js'
import type { ChatCompletion, ChatCompletionChunk, ChatDelta, ChatFinishReason, WireToolCall } from './types.js'

/** What a request says of its answer. */
export interface ChatAnswerOptions {
  readonly model: string
  readonly includeUsage: boolean
  readonly includeReasoning: boolean
}

/** One answer: a `chat.completion`, or its chunks. */
export function chatAnswer({ model, includeUsage, includeReasoning }: ChatAnswerOptions): AnswerForm {
  const { id, created } = newAnswer('chatcmpl')
  const frame = (choices: ChatCompletionChunk['choices'], usage: WireUsage | null = null): string => {
    const chunk: ChatCompletionChunk = {
      id,
      object: 'chat.completion.chunk',
      created,
      model,
      choices,
      ...(includeUsage ? { usage } : {}),
    }
    return formatEvent(chunk)
  }
  const piece = (delta: ChatDelta, finishReason: ChatFinishReason | null = null): string =>
    frame([{ index: 0, delta, logprobs: null, finish_reason: finishReason }])
  let calls = 0
  return {
    whole(answer: Answer): ChatCompletion {
      const content = textOf(answer, 'content')
      const reasoning = textOf(answer, 'reasoning')
      const toolCalls = answer.parts.flatMap((part) => (part.type === 'tool_call' ? [toWireCall(part.call)] : []))
      const message = {
        role: 'assistant' as const,
        content: content === '' && toolCalls.length > 0 ? null : content,
        ...(reasoning !== '' && includeReasoning ? { reasoning_content: reasoning } : {}),
        ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
      }
      return {
        id,
        object: 'chat.completion',
        created,
        model,
        choices: [{ index: 0, message, logprobs: null, finish_reason: answer.reason }],
        usage: toWireUsage(answer.usage),
      }
    },
    stream: {
      ...streamEnds,
      start: () => piece({ role: 'assistant', content: '' }),
      push(event: ChatEvent) {
        switch (event.type) {
          case 'content':
            return piece({ content: event.text })
          case 'reasoning':
            return includeReasoning ? piece({ reasoning_content: event.text }) : ''
          case 'tool_call':
            return piece({ tool_calls: [{ index: calls++, ...toWireCall(event.call) }] })
          case 'finish':
            return piece({}, event.reason) + (includeUsage ? frame([], toWireUsage(event.usage)) : '')
        }
      },
    },
  }
}

function toWireCall({ id, function: { name, arguments: text } }: WireToolCall): WireToolCall {
  return { id, type: 'function', function: { name, arguments: text } }
}
