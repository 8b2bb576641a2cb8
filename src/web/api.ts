/** The server's public HTTP API as this page uses it. Addresses are relative: the app may be mounted below a path. */

export interface ToolCall {
  id: string
  type: 'function'
  function: { name: string; arguments: string }
}

export interface WireMessage {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string | null
  reasoning_content?: string
  tool_calls?: ToolCall[]
  tool_call_id?: string
}

export interface Usage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details?: { cached_tokens?: number }
  completion_tokens_details?: { reasoning_tokens?: number }
}

export interface Health {
  status: 'ok' | 'loading' | 'error' | 'shutting_down'
  model?: string
  message?: string
  phase?: string
  loaded_bytes?: number
  total_bytes?: number
  context_length?: number
  version?: string
}

export type StreamEvent =
  | { type: 'reasoning'; text: string }
  | { type: 'content'; text: string }
  | { type: 'tool_calls'; calls: ToolCall[] }
  | { type: 'finish'; reason: string }
  | { type: 'usage'; usage: Usage }

/** An error the server put in words. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string | null,
  ) {
    super(message)
  }
}

interface WireError {
  error?: { message?: string; code?: string | null }
}

interface WireChunk extends WireError {
  choices?: {
    delta?: { content?: string | null; reasoning_content?: string | null; tool_calls?: ToolCall[] }
    finish_reason?: string | null
  }[]
  usage?: Usage | null
}

/** `/health`, which answers while loading and when loading failed, too. */
export async function health(): Promise<Health> {
  return (await (await fetch('health', { cache: 'no-store' })).json()) as Health
}

/** Sends a chat and yields what comes back, piece by piece. Throws `ApiError`, or the signal's reason. */
export async function* streamChat(body: object, apiKey: string, signal: AbortSignal): AsyncGenerator<StreamEvent> {
  const response = await fetch('v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}) },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  })
  if (!response.ok || !response.body) {
    const problem = (await response.json().catch(() => ({}))) as WireError
    throw new ApiError(
      problem.error?.message ?? `HTTP ${response.status}`,
      response.status,
      problem.error?.code ?? null,
    )
  }
  let ended = false
  for await (const data of serverEvents(response.body)) {
    if (data === '[DONE]') {
      ended = true
      break
    }
    const chunk = JSON.parse(data) as WireChunk
    if (chunk.error) throw new ApiError(chunk.error.message ?? 'the server failed', 200, chunk.error.code ?? null)
    yield* events(chunk)
  }
  if (!ended) throw new ApiError('The connection ended before the answer did.', 0, null)
}

function* events(chunk: WireChunk): Generator<StreamEvent> {
  const choice = chunk.choices?.[0]
  const delta = choice?.delta
  if (delta?.reasoning_content) yield { type: 'reasoning', text: delta.reasoning_content }
  if (delta?.content) yield { type: 'content', text: delta.content }
  if (delta?.tool_calls) yield { type: 'tool_calls', calls: delta.tool_calls }
  if (choice?.finish_reason) yield { type: 'finish', reason: choice.finish_reason }
  if (chunk.usage) yield { type: 'usage', usage: chunk.usage }
}

/** The `data:` payloads of a server-sent event stream. */
async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const lines = (rest + value).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) if (line.startsWith('data:')) yield line.slice(5).trim()
    }
  } finally {
    reader.cancel().catch(() => undefined)
  }
}
