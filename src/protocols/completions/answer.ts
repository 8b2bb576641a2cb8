import { textOf, type Answer } from '../../chat/collect.js'
import type { ChatEvent } from '../../chat/types.js'
import { newAnswer, toWireUsage } from '../../wire/openai/answer.js'
import { streamEnds } from '../../wire/openai/stream.js'
import type { WireUsage } from '../../wire/openai/types.js'
import { formatEvent } from '../../wire/sse.js'
import type { AnswerForm } from '../protocol.js'
import type { TextCompletion } from './types.js'

/** One answer: a `text_completion`, or its chunks. */
export function completionAnswer(model: string, includeUsage: boolean): AnswerForm {
  const { id, created } = newAnswer('cmpl')
  const completion = (choices: TextCompletion['choices'], usage: { usage?: WireUsage | null }): TextCompletion => ({
    id,
    object: 'text_completion',
    created,
    model,
    choices,
    ...usage,
  })
  const choice = (text: string, reason: 'stop' | 'length' | null): TextCompletion['choices'] => [
    { index: 0, text, logprobs: null, finish_reason: reason },
  ]
  const frame = (choices: TextCompletion['choices'], usage: WireUsage | null = null): string =>
    formatEvent(completion(choices, includeUsage ? { usage } : {}))
  return {
    whole: (answer: Answer) =>
      completion(choice(textOf(answer, 'content'), finish(answer.reason)), { usage: toWireUsage(answer.usage) }),
    stream: {
      ...streamEnds,
      start: () => '',
      push(event: ChatEvent) {
        if (event.type === 'content') return frame(choice(event.text, null))
        if (event.type !== 'finish') return ''
        return frame(choice('', finish(event.reason))) + (includeUsage ? frame([], toWireUsage(event.usage)) : '')
      },
    },
  }
}

/** Raw text has no tool calls to end with. */
function finish(reason: Answer['reason']): 'stop' | 'length' {
  return reason === 'length' ? 'length' : 'stop'
}
