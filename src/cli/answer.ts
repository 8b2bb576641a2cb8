import type { ChatEvent, ToolCall, Usage } from '../chat/types.js'
import { CliError, exitCodes } from './exit.js'

/** A collected answer, with when it came. */
export interface Answer {
  readonly content: string
  readonly reasoning: string
  readonly toolCalls: readonly ToolCall[]
  readonly finishReason: 'stop' | 'length' | 'tool_calls'
  readonly usage: Usage
  /** Seconds until the first piece, and until the end. */
  readonly seconds: { readonly first: number; readonly total: number }
}

/** What an answer has come to so far; kept by the caller, so that it survives an interruption. */
export interface PartialAnswer {
  content: string
  reasoning: string
  toolCalls: ToolCall[]
}

/** Reads an answer to its end, handing every piece on as it comes. */
export async function readAnswer(
  events: AsyncIterable<ChatEvent>,
  onPiece: (event: Exclude<ChatEvent, { type: 'finish' }>) => Promise<void>,
  partial: PartialAnswer = { content: '', reasoning: '', toolCalls: [] },
): Promise<Answer> {
  const started = performance.now()
  let first: number | undefined
  const elapsed = (): number => (performance.now() - started) / 1000
  for await (const event of events) {
    first ??= elapsed()
    if (event.type === 'finish') {
      return { ...partial, finishReason: event.reason, usage: event.usage, seconds: { first, total: elapsed() } }
    }
    if (event.type === 'content') partial.content += event.text
    else if (event.type === 'reasoning') partial.reasoning += event.text
    else partial.toolCalls.push(event.call)
    await onPiece(event)
  }
  throw new CliError('The answer ended without its finish.', exitCodes.failed)
}

/** One line about an answer's length and speed. */
export function answerFacts({ usage, seconds, finishReason }: Answer): string {
  const rate =
    seconds.total > seconds.first && usage.completionTokens > 1
      ? (usage.completionTokens - 1) / (seconds.total - seconds.first)
      : undefined
  const parts = [
    `${usage.completionTokens} tokens${usage.reasoningTokens > 0 ? ` (${usage.reasoningTokens} of reasoning)` : ''}`,
    ...(rate === undefined ? [] : [`${rate.toFixed(1)} tokens/s`]),
    `first after ${seconds.first.toFixed(1)} s`,
    ...(finishReason === 'length' ? ['cut at the limit, see --max-new-tokens'] : []),
  ]
  return parts.join(', ')
}
