import type { SamplingParams } from '../chat/types.js'
import type { RequestDefaults } from './defaults.js'
import { invalidRequest, modelNotFound, promptTooLong, tooManyMessages } from './errors.js'

/** The model's name as the answer repeats it; under strict a foreign one is a 404. */
export function readModel(model: string | null | undefined, defaults: RequestDefaults): string {
  const name = model || defaults.modelId
  if (defaults.strictModel && name !== defaults.modelId) throw modelNotFound(name)
  return name
}

/** Refuses conversations that cannot fit, each message being a token at least, before time is spent on rendering them. */
export function checkCount(
  messages: readonly unknown[],
  window: number,
  defaults: RequestDefaults,
  param: string,
): void {
  const limit = Math.min(defaults.maxPromptTokens, window - 1)
  if (messages.length > limit) throw tooManyMessages(messages.length, limit, param)
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
  param: string,
): SamplingParams {
  const limit = Math.min(defaults.maxPromptTokens, window - 1)
  if (promptTokens > limit) throw promptTooLong(promptTokens, limit, param)
  if (promptTokens === 0) throw invalidRequest(`${param} must not be empty`, param)
  return { ...params, maxTokens: Math.min(params.maxTokens ?? Infinity, window - promptTokens) }
}
