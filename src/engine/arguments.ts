import { createError } from '../errors.js'
import type { NativeGenerateParams } from '../native.js'
import type { GenerateParams, ModelInfo } from './types.js'

/** What the checks need to know of the model. */
export type Limits = Pick<ModelInfo, 'vocabSize' | 'contextLength'>

function refuse(param: string, expected: string, found: unknown): never {
  const shown = typeof found === 'string' ? JSON.stringify(found) : String(found)
  throw createError('INVALID_ARGUMENT', `\`${param}\` must be ${expected}, got ${shown}`, { param })
}

function check(param: string, expected: string, value: unknown, accepts: (value: number) => boolean): void {
  if (typeof value !== 'number' || !accepts(value)) refuse(param, expected, value)
}

/** An object of options; absent and null are an empty one. */
export function checkObject<T extends object>(param: string, value: T | null | undefined): T {
  const given: unknown = value ?? {}
  if (typeof given !== 'object' || Array.isArray(given)) refuse(param, 'an object', given)
  return given as T
}

/** Options with a signal in them, both checked. */
export function checkCall<T extends { readonly signal?: AbortSignal | undefined }>(
  param: string,
  value: T | null | undefined,
): T {
  const options = checkObject(param, value)
  const signal: unknown = options.signal ?? undefined
  if (signal !== undefined) {
    // By what it can do: a signal of another realm is no instance of this one's class.
    const { throwIfAborted, addEventListener } = signal as Partial<AbortSignal>
    if (typeof throwIfAborted !== 'function' || typeof addEventListener !== 'function')
      refuse('signal', 'an AbortSignal', signal)
  }
  return options
}

/** A callback, or none. */
export function checkCallback(param: string, value: unknown): void {
  if (value !== undefined && value !== null && typeof value !== 'function') refuse(param, 'a function', value)
}

/** Token ids as the addon takes them, checked one by one. */
export function checkIds(param: string, ids: unknown, { vocabSize }: Limits): Uint32Array {
  const list = ids instanceof Uint32Array || Array.isArray(ids) ? (ids as ArrayLike<unknown>) : undefined
  if (list === undefined) return refuse(param, 'a Uint32Array or an array of token ids', typeof ids)
  if (list.length === 0) return refuse(param, 'at least one token id', 'none')
  for (let index = 0; index < list.length; index++) {
    const id = list[index]
    if (!Number.isInteger(id) || (id as number) < 0 || (id as number) >= vocabSize) {
      return refuse(`${param}[${index}]`, `a token id below ${vocabSize}`, id)
    }
  }
  return Uint32Array.from(list as ArrayLike<number>)
}

/** A prompt that leaves room for an answer. */
export function checkPrompt(ids: unknown, limits: Limits): Uint32Array {
  const prompt = checkIds('promptIds', ids, limits)
  if (prompt.length >= limits.contextLength) throw tooLong(prompt.length, limits.contextLength)
  return prompt
}

/** The error for a prompt beyond the context; the message gives both numbers. */
export function tooLong(tokens: number, contextLength: number): Error {
  return createError(
    'CONTEXT_LENGTH_EXCEEDED',
    `The prompt has ${tokens} tokens, but the model's context of ${contextLength} must hold prompt and answer.`,
  )
}

/** Sampling parameters as the addon takes them, checked. */
export function checkParams(
  params: GenerateParams | null | undefined,
  limits: Limits,
  endTokens: readonly number[],
): NativeGenerateParams {
  const checked: NativeGenerateParams = {}
  const own = checkCall('params', params)
  const { maxTokens, temperature, topK, topP, repetitionPenalty, seed, ignoreEos, snapshotAt } = own
  const given = <T>(value: T | null | undefined): value is T => value !== undefined && value !== null
  if (given(maxTokens)) {
    check('maxTokens', 'a whole number of at least 1', maxTokens, (n) => Number.isInteger(n) && n >= 1)
    checked.maxTokens = Math.min(maxTokens, limits.contextLength)
  }
  if (given(temperature)) {
    check('temperature', 'a number of at least 0', temperature, (n) => n >= 0 && n < Infinity)
    checked.temperature = temperature
  }
  if (given(topK)) {
    check('topK', 'a whole number of at least -1', topK, (n) => Number.isInteger(n) && n >= -1)
    checked.topK = Math.min(topK, limits.vocabSize)
  }
  if (given(topP)) {
    check('topP', 'above 0 and at most 1', topP, (n) => n > 0 && n <= 1)
    checked.topP = topP
  }
  if (given(repetitionPenalty)) {
    check('repetitionPenalty', 'a number above 0', repetitionPenalty, (n) => n > 0 && n < Infinity)
    checked.repetitionPenalty = repetitionPenalty
  }
  if (given(seed)) {
    if (typeof seed !== 'bigint') check('seed', 'a whole number or a bigint', seed, Number.isInteger)
    checked.seed = BigInt.asUintN(64, BigInt(seed))
  }
  if (given(ignoreEos)) {
    if (typeof ignoreEos !== 'boolean') refuse('ignoreEos', 'true or false', ignoreEos)
    checked.ignoreEos = ignoreEos
  }
  if (given(own.endTokens)) {
    const ends: unknown = own.endTokens
    checked.endTokens = Array.isArray(ends) && ends.length === 0 ? [] : [...checkIds('endTokens', ends, limits)]
  } else checked.endTokens = [...endTokens]
  if (given(snapshotAt)) {
    const positions: unknown = snapshotAt
    if (!Array.isArray(positions)) refuse('snapshotAt', 'an array of positions', typeof positions)
    for (const at of snapshotAt)
      check('snapshotAt', 'positions of the prompt', at, (n) => Number.isInteger(n) && n >= 0)
    checked.snapshotAt = [...snapshotAt]
  }
  return checked
}
