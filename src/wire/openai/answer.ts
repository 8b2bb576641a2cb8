import { randomBytes } from 'node:crypto'
import type { Usage } from '../../chat/types.js'
import { constant, count, object, text, type JsonSchema } from '../json-schema.js'
import type { WireUsage } from './types.js'

/** A fresh id: the prefix and 24 random hex digits. */
export function newId(prefix: string): string {
  return prefix + randomBytes(12).toString('hex')
}

/** What all chunks of one answer share: a fresh id (24 random hex digits) and the second it began. */
export function newAnswer(prefix: string): { id: string; created: number } {
  return { id: newId(`${prefix}-`), created: Math.floor(Date.now() / 1000) }
}

/** Token counts in the names of the wire. */
export function toWireUsage({ promptTokens, completionTokens, cachedTokens, reasoningTokens }: Usage): WireUsage {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
    completion_tokens_details: { reasoning_tokens: reasoningTokens },
  }
}

/** Schema of {@link WireUsage}. */
export const usageSchema: JsonSchema = object('Token counts of one answer.', {
  prompt_tokens: count('Tokens of the prompt, template included.'),
  completion_tokens: count('Tokens generated, reasoning included.'),
  total_tokens: count('Both together.'),
  prompt_tokens_details: object('Of the prompt tokens:', {
    cached_tokens: count('Those whose keys and values were still there from an earlier request.'),
  }),
  completion_tokens_details: object('Of the generated tokens:', {
    reasoning_tokens: count('Those before the one that completes </think>.'),
  }),
})

/** Schema of what all answers begin with. */
export const answerHead = (prefix: string, kind: string): Record<string, JsonSchema> => ({
  id: text(`${prefix} and 24 hex digits.`, { pattern: `^${prefix}[0-9a-f]{24,}$` }),
  object: constant(kind, 'What this is.'),
  created: count('Unix time in seconds.'),
  model: text("The request's model, or the served one where the request named none."),
})

/** Schema of a field that this server does not fill. */
export const noLogprobs = constant(null, 'Always null.')
