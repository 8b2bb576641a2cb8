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
  params: GenerateParams,
  limits: Limits,
  endTokens: readonly number[],
): NativeGenerateParams {
  const checked: NativeGenerateParams = {}
  const { maxTokens, temperature, topK, topP, repetitionPenalty, seed, ignoreEos, snapshotAt } = params
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
  if (given(params.endTokens)) {
    const own: unknown = params.endTokens
    checked.endTokens = Array.isArray(own) && own.length === 0 ? [] : [...checkIds('endTokens', own, limits)]
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
