import { randomBytes } from 'node:crypto'
import type { Usage } from '../chat/types.js'
import type { WireUsage } from './types.js'

/** What all chunks of one answer share: a fresh id (24 random hex digits) and the second it began. */
export function newAnswer(prefix: 'chatcmpl' | 'cmpl'): { id: string; created: number } {
  return { id: `${prefix}-${randomBytes(12).toString('hex')}`, created: Math.floor(Date.now() / 1000) }
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
