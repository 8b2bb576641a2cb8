import type { Answer } from '../../chat/collect.js'
import type { ChatEvent, ChatFinish, Usage } from '../../chat/types.js'
import type { ApiError } from '../../wire/errors.js'
import { newId } from '../../wire/openai/answer.js'
import { formatEvent, KEEP_ALIVE_COMMENT } from '../../wire/sse.js'
import type { AnswerForm } from '../protocol.js'
import { ResponseOutput, type OutputOptions } from './output.js'
import type { OutputEvent, ResponseEcho, ResponseEvent, ResponseUsage, WireEvent, WireResponse } from './types.js'

const now = (): number => Math.floor(Date.now() / 1000)

/** One answer: a `response`, or the events of one. */
export function responseAnswer(echo: ResponseEcho, options: OutputOptions): AnswerForm {
  const id = newId('resp_')
  const createdAt = now()
  const output = new ResponseOutput(options)
  let finish: ChatFinish | undefined
  let sequence = 0

  const response = (status: WireResponse['status'], more: Partial<WireResponse> = {}): WireResponse => ({
    id,
    object: 'response',
    created_at: createdAt,
    completed_at: null,
    status,
    background: false,
    error: null,
    incomplete_details: null,
    ...echo,
    output: output.items,
    previous_response_id: null,
    store: false,
    top_logprobs: 0,
    usage: null,
    ...more,
  })
  const final = ({ reason, usage }: Pick<Answer, 'reason' | 'usage'>): WireResponse =>
    reason === 'length'
      ? response('incomplete', { incomplete_details: { reason: 'max_output_tokens' }, usage: toUsage(usage) })
      : response('completed', { completed_at: now(), usage: toUsage(usage) })

  const frames = (events: readonly (OutputEvent | ResponseEvent)[]): string =>
    events
      .map((event) => {
        const numbered: WireEvent = { ...event, sequence_number: sequence++ }
        return formatEvent(numbered, event.type)
      })
      .join('')
  const start = (): string =>
    frames([
      { type: 'response.created', response: response('in_progress') },
      { type: 'response.in_progress', response: response('in_progress') },
    ])

  return {
    whole(answer: Answer): WireResponse {
      for (const part of answer.parts) output.push(part)
      output.finish(answer.reason)
      return final(answer)
    },
    stream: {
      start,
      push(event: ChatEvent) {
        if (event.type !== 'finish') return frames(output.push(event))
        finish = event
        return frames(output.finish(event.reason))
      },
      end() {
        if (finish === undefined) return ''
        const last = final(finish)
        return frames([
          { type: last.status === 'completed' ? 'response.completed' : 'response.incomplete', response: last },
        ])
      },
      fail({ message }: ApiError) {
        // Readers of the stream want the events in order, also where the wait for a slot is what failed.
        const before = sequence === 0 ? start() : ''
        const error = { code: 'server_error' as const, message }
        return before + frames([{ type: 'response.failed', response: response('failed', { error }) }])
      },
      keepAlive: () => KEEP_ALIVE_COMMENT,
    },
  }
}

function toUsage({ promptTokens, completionTokens, cachedTokens, reasoningTokens }: Usage): ResponseUsage {
  return {
    input_tokens: promptTokens,
    input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
    output_tokens: completionTokens,
    output_tokens_details: { reasoning_tokens: reasoningTokens },
    total_tokens: promptTokens + completionTokens,
  }
}
