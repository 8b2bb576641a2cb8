import type { ChatEvent, ChatParams, Usage } from '../chat/types.js'
import type { ChatBackend } from './backend.js'
import { CliError, exitCodes } from './exit.js'

/** Answers chats through a running server that speaks the OpenAI API. */
export async function connect(url: string, apiKey: string | undefined, signal: AbortSignal): Promise<ChatBackend> {
  const base = serverBase(url)
  const headers: Record<string, string> = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }
  const models = (await (await send(`${base}/models`, { headers, signal })).json().catch(() => undefined)) as
    { data?: { id?: unknown }[] } | undefined
  const id = models?.data?.[0]?.id
  if (typeof id !== 'string')
    throw new CliError(
      `${base} does not answer like a server with the OpenAI API. Is the address right?`,
      exitCodes.server,
    )
  return {
    model: id,
    chat: (params, chatSignal) => streamChat(`${base}/chat/completions`, headers, id, params, chatSignal),
    close: async () => {},
  }
}

/** `host:port`, `http://host` or `http://host/v1` to the address below which the routes are. */
function serverBase(url: string): string {
  const text = /^[a-z]+:\/\//i.test(url) ? url : `http://${url}`
  if (!URL.canParse(text) || !/^https?:/i.test(text))
    throw new CliError(
      `--url takes a server's address, such as http://127.0.0.1:8000, and is "${url}".`,
      exitCodes.usage,
    )
  const parsed = new URL(text)
  const path = parsed.pathname.replace(/\/+$/, '')
  return parsed.origin + (path.endsWith('/v1') ? path : `${path}/v1`)
}

async function* streamChat(
  url: string,
  headers: Record<string, string>,
  model: string,
  params: ChatParams,
  signal: AbortSignal,
): AsyncGenerator<ChatEvent, void> {
  const body = {
    model,
    messages: params.messages,
    stream: true,
    stream_options: { include_usage: true },
    max_tokens: params.maxTokens,
    temperature: params.temperature,
    top_p: params.topP,
    top_k: params.topK,
    repetition_penalty: params.repetitionPenalty,
    seed: params.seed === undefined ? undefined : Number(params.seed),
    stop: params.stop ?? undefined,
    chat_template_kwargs: params.enableThinking === undefined ? undefined : { enable_thinking: params.enableThinking },
  }
  const response = await send(url, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  })
  let reason: 'stop' | 'length' | 'tool_calls' | undefined
  let usage: Usage | undefined
  for await (const data of serverSentEvents(response, signal)) {
    if (data === '[DONE]') {
      if (reason === undefined) break
      yield {
        type: 'finish',
        reason,
        usage: usage ?? { promptTokens: 0, completionTokens: 0, cachedTokens: 0, reasoningTokens: 0 },
      }
      return
    }
    const chunk = parseChunk(data)
    if (chunk.error !== undefined)
      throw new CliError(`The server failed: ${chunk.error.message ?? data}`, exitCodes.server)
    if (chunk.usage != null) usage = toUsage(chunk.usage)
    const choice = chunk.choices?.[0]
    const delta = choice?.delta
    if (delta?.reasoning_content) yield { type: 'reasoning', text: delta.reasoning_content }
    if (delta?.content) yield { type: 'content', text: delta.content }
    for (const call of delta?.tool_calls ?? []) {
      yield {
        type: 'tool_call',
        call: {
          id: call.id ?? '',
          type: 'function',
          function: { name: call.function?.name ?? '', arguments: call.function?.arguments ?? '' },
        },
      }
    }
    const finish = choice?.finish_reason
    if (finish === 'stop' || finish === 'length' || finish === 'tool_calls') reason = finish
  }
  throw new CliError('The server broke off in the middle of the answer.', exitCodes.server)
}

interface WireUsage {
  prompt_tokens?: number
  completion_tokens?: number
  prompt_tokens_details?: { cached_tokens?: number } | null
  completion_tokens_details?: { reasoning_tokens?: number } | null
}

interface WireChunk {
  error?: { message?: string }
  usage?: WireUsage | null
  choices?: {
    finish_reason?: string | null
    delta?: {
      content?: string | null
      reasoning_content?: string | null
      tool_calls?: { id?: string; function?: { name?: string; arguments?: string } }[]
    }
  }[]
}

function parseChunk(data: string): WireChunk {
  try {
    return JSON.parse(data) as WireChunk
  } catch {
    throw new CliError('The server sent something that is not JSON in the middle of the answer.', exitCodes.server)
  }
}

function toUsage(usage: WireUsage): Usage {
  return {
    promptTokens: usage.prompt_tokens ?? 0,
    completionTokens: usage.completion_tokens ?? 0,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    reasoningTokens: usage.completion_tokens_details?.reasoning_tokens ?? 0,
  }
}

/** Sends a request; anything but a success becomes an error with the server's own words. */
async function send(url: string, init: RequestInit): Promise<Response> {
  let response: Response
  try {
    response = await fetch(url, init)
  } catch (error) {
    init.signal?.throwIfAborted()
    const code = (error as { cause?: NodeJS.ErrnoException }).cause?.code
    if (code === 'UND_ERR_SOCKET' || code === 'ECONNRESET') {
      throw new CliError(`${new URL(url).origin} broke off the connection.`, exitCodes.server, { cause: error })
    }
    throw new CliError(
      `No server answers at ${new URL(url).origin} (${code ?? 'no connection'}). Start one with "maple-cpu serve", or leave --url out to run the model here.`,
      exitCodes.server,
      {
        cause: error,
      },
    )
  }
  if (response.ok) return response
  const text = await response.text().catch(() => '')
  let message: string | undefined
  try {
    message = (JSON.parse(text) as WireChunk).error?.message
  } catch {
    // Not our kind of server; its status must do.
  }
  const hint = response.status === 401 ? ' Give its key with --api-key or MAPLE_API_KEY.' : ''
  throw new CliError(
    `The server answered ${response.status}: ${message ?? response.statusText}.${hint}`.replace(/\.\.(?= |$)/, '.'),
    exitCodes.server,
  )
}

/** The data of each server-sent event. Comments and other fields are passed over. */
async function* serverSentEvents(response: Response, signal: AbortSignal): AsyncGenerator<string, void> {
  const decoder = new TextDecoder()
  let text = ''
  try {
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      text += decoder.decode(chunk, { stream: true })
      const lines = text.split(/\r\n|\n|\r(?!$)/)
      text = lines.pop() ?? ''
      for (const line of lines) {
        if (line.startsWith('data:')) yield line.slice(5).trimStart()
      }
    }
  } catch (error) {
    signal.throwIfAborted()
    throw new CliError('The connection to the server broke off in the middle of the answer.', exitCodes.server, {
      cause: error,
    })
  }
}
