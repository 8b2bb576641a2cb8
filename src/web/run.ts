import { ApiError, streamChat, type Usage } from './api.js'
import { toolList } from './settings.js'
import type { Settings } from './store.js'
import { wireMessages, type Conversation, type Turn } from './tree.js'

/** The request for the branch that ends in `leaf`. Throws with words when a setting cannot be read. */
export function requestBody(c: Conversation, leaf: string | null, settings: Settings): Record<string, unknown> {
  const body: Record<string, unknown> = {
    messages: wireMessages(c, leaf, settings.system),
    chat_template_kwargs: { enable_thinking: settings.thinking },
  }
  const number = (name: string, label: string, text: string): void => {
    if (!text.trim()) return
    const value = Number(text.trim().replace(',', '.'))
    if (!Number.isFinite(value)) throw new Error(`Settings: ${label} is “${text}”, expected a number.`)
    body[name] = value
  }
  number('temperature', 'Temperature', settings.temperature)
  number('top_p', 'Top-p', settings.topP)
  number('top_k', 'Top-k', settings.topK)
  number('max_tokens', 'Most tokens', settings.maxTokens)
  number('repetition_penalty', 'Repetition penalty', settings.repetitionPenalty)
  number('seed', 'Seed', settings.seed)
  if (settings.stop) body['stop'] = [settings.stop]
  const tools = toolList(settings.tools)
  if (tools.length > 0) body['tools'] = tools
  return body
}

/** Fills `turn` with the model's answer, calling `changed` for each piece. Never throws: what failed is in `turn.error`. */
export async function runTurn(
  turn: Turn,
  body: object,
  apiKey: string,
  signal: AbortSignal,
  changed: () => void,
): Promise<void> {
  const start = performance.now()
  const times: NonNullable<Turn['times']> = {}
  turn.times = times
  const first = (): void => {
    times.first ??= performance.now() - start
  }
  const thought = (): void => {
    if (turn.reasoning) times.reasoning ??= performance.now() - start - (times.first ?? 0)
  }
  try {
    for await (const event of streamChat(body, apiKey, signal)) {
      if (event.type === 'usage') turn.usage = event.usage satisfies Usage
      else if (event.type === 'finish') turn.finish = event.reason
      else {
        first()
        if (event.type === 'reasoning') turn.reasoning = (turn.reasoning ?? '') + event.text
        else {
          thought()
          if (event.type === 'content') turn.content += event.text
          else
            turn.toolCalls = [
              ...(turn.toolCalls ?? []),
              ...event.calls.map(({ id, function: f }) => ({ id, type: 'function' as const, function: f })),
            ]
        }
      }
      changed()
    }
  } catch (error) {
    if (!signal.aborted) turn.error = explain(error)
  }
  thought()
  times.total = performance.now() - start
  changed()
}

function explain(error: unknown): string {
  if (error instanceof ApiError && error.status === 401)
    return `${error.message} — put the server's key into the settings.`
  if (error instanceof ApiError) return error.message
  if (error instanceof TypeError) return 'The server cannot be reached. Is it still running?'
  return error instanceof Error ? error.message : String(error)
}
