import type { CompletionEvent, CompletionParams } from '../chat/types.js'
import { newAnswer, toWireUsage } from './answer.js'
import { invalidRequest } from './errors.js'
import { readForm, readSampling, type AnswerForm } from './request.js'
import { completionValidator } from './schema.js'
import type { CompletionBody } from './schemas.js'
import type { RequestDefaults, TextCompletion, WireUsage } from './types.js'

/** A raw completion request, read. The prompt is text still to be encoded, or ids. */
export interface CompletionRequest extends AnswerForm {
  readonly prompt: string | Uint32Array
  readonly params: CompletionParams
}

/** Checks types and required fields of a body, then the model it names. */
export function openCompletion(body: unknown, defaults: RequestDefaults): { body: CompletionBody; form: AnswerForm } {
  completionValidator.shape(body)
  return { body, form: readForm(body, defaults) }
}

/** Checks the values of an opened body and turns it into parameters. `vocabSize` bounds the ids of a prompt. */
export function readCompletion(
  body: CompletionBody,
  form: AnswerForm,
  defaults: RequestDefaults,
  vocabSize: number,
): CompletionRequest {
  completionValidator.rules(body)
  return { ...form, prompt: readPrompt(body.prompt, vocabSize), params: readSampling(body, defaults) }
}

function readPrompt(prompt: CompletionBody['prompt'], vocabSize: number): string | Uint32Array {
  if (typeof prompt === 'string') return prompt
  const [first] = prompt
  if (typeof first === 'string') return first
  const list = (Array.isArray(first) ? first : prompt) as readonly number[]
  const wrong = list.findIndex((id) => id >= vocabSize)
  if (wrong !== -1) throw invalidRequest(`prompt[${wrong}] must be a token id from 0 to ${vocabSize - 1}`, 'prompt')
  return Uint32Array.from(list)
}

/** Reads a whole answer into one `text_completion`. */
export async function collectCompletion(
  request: CompletionRequest,
  events: AsyncIterable<CompletionEvent>,
): Promise<TextCompletion> {
  const { id, created } = newAnswer('cmpl')
  let text = ''
  for await (const event of events) {
    if (event.type === 'content') text += event.text
    else {
      return {
        id,
        object: 'text_completion',
        created,
        model: request.model,
        choices: [{ index: 0, text, logprobs: null, finish_reason: event.reason }],
        usage: toWireUsage(event.usage),
      }
    }
  }
  throw new Error('the answer ended without a finish event')
}

/** Turns an answer into chunks. */
export async function* streamCompletion(
  request: CompletionRequest,
  events: AsyncIterable<CompletionEvent>,
): AsyncGenerator<TextCompletion, void, undefined> {
  const { id, created } = newAnswer('cmpl')
  const { model, includeUsage } = request
  const frame = (choices: TextCompletion['choices'], usage: WireUsage | null = null): TextCompletion => ({
    id,
    object: 'text_completion',
    created,
    model,
    choices,
    ...(includeUsage ? { usage } : {}),
  })
  for await (const event of events) {
    if (event.type === 'content') {
      yield frame([{ index: 0, text: event.text, logprobs: null, finish_reason: null }])
    } else {
      yield frame([{ index: 0, text: '', logprobs: null, finish_reason: event.reason }])
      if (includeUsage) yield frame([], toWireUsage(event.usage))
      return
    }
  }
  throw new Error('the answer ended without a finish event')
}
