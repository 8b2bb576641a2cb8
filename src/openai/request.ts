import type { SamplingParams } from '../chat/types.js'
import { invalidRequest, modelNotFound, promptTooLong, tooManyMessages } from './errors.js'
import type { SamplingBody } from './schemas.js'
import type { RequestDefaults } from './types.js'

/** Above every vocabulary, where top-k is off, and still a 32-bit integer. */
const MAX_TOP_K = 2 ** 31 - 1

/** What a request says about the form of its answer. */
export interface AnswerForm {
  /** Echoed in the answer. */
  readonly model: string
  readonly stream: boolean
  /** Whether a stream ends with a usage chunk. */
  readonly includeUsage: boolean
}

/** Reads the form of the answer; under strict a foreign model is a 404. */
export function readForm(body: SamplingBody, defaults: RequestDefaults): AnswerForm {
  const model = body.model || defaults.modelId
  if (defaults.strictModel && model !== defaults.modelId) throw modelNotFound(model)
  const stream = body.stream ?? false
  return { model, stream, includeUsage: stream && (body.stream_options?.include_usage ?? false) }
}

/** Reads the sampling fields of a request that passed its schema. */
export function readSampling(body: SamplingBody, defaults: RequestDefaults): SamplingParams {
  const maxTokens = body.max_completion_tokens ?? body.max_tokens ?? defaults.maxNewTokens
  return {
    // Number(): a whole number past 2^53 is a bigint here.
    maxTokens: Math.min(Number(maxTokens), defaults.maxNewTokensLimit),
    temperature: Number(body.temperature ?? defaults.temperature),
    topP: Number(body.top_p ?? defaults.topP),
    topK: Math.min(Number(body.top_k ?? defaults.topK), MAX_TOP_K),
    repetitionPenalty: Number(body.repetition_penalty ?? 1),
    seed: readSeed(body.seed),
    stop: [body.stop ?? []].flat().filter((text) => text !== ''),
  }
}

/** Any integer; those that a double writes without being exact (1e20) are taken at their double's value. */
function readSeed(seed: number | bigint | null | undefined): number | bigint | undefined {
  if (seed === null || seed === undefined) return undefined
  return typeof seed === 'number' && !Number.isSafeInteger(seed) ? BigInt(seed) : seed
}

/** Refuses conversations that cannot fit, each message being a token at least, before time is spent on rendering them. */
export function checkCount(messages: readonly unknown[], window: number, defaults: RequestDefaults): void {
  const limit = Math.min(defaults.maxPromptTokens, window - 1)
  if (messages.length > limit) throw tooManyMessages(messages.length, limit)
}

/**
 * Checks a prompt against the limit of the server and the window of the model, and clamps the answer to what is left
 * of the window.
 */
export function fitWindow(
  params: SamplingParams,
  promptTokens: number,
  window: number,
  defaults: RequestDefaults,
  param: 'messages' | 'prompt',
): SamplingParams {
  const limit = Math.min(defaults.maxPromptTokens, window - 1)
  if (promptTokens > limit) throw promptTooLong(promptTokens, limit, param)
  if (promptTokens === 0) throw invalidRequest(`${param} must not be empty`, param)
  return { ...params, maxTokens: Math.min(params.maxTokens ?? Infinity, window - promptTokens) }
}
