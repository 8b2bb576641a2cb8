import type { Examples } from '../../wire/json-schema.js'
import { DONE_EVENT } from '../../wire/openai/stream.js'
import { formatEvent } from '../../wire/sse.js'

/** Bodies of `POST /v1/completions`. */
export const completionExamples: Examples = {
  text: { summary: 'A text', value: { prompt: 'Once upon a time', max_tokens: 16, seed: 42 } },
  ids: { summary: 'Token ids, streamed', value: { prompt: [72, 101, 108], max_tokens: 16, stream: true } },
}

function completionEvent(text: string, reason: string | null = null): string {
  return formatEvent({
    id: 'cmpl-0123456789abcdef01234567',
    object: 'text_completion',
    created: 1789460000,
    model: 'maple-preview',
    choices: [{ index: 0, text, logprobs: null, finish_reason: reason }],
  })
}

/** A streamed raw completion. */
export const completionStream = [completionEvent(' there'), completionEvent('', 'stop'), DONE_EVENT].join('')
