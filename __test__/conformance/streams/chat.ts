import type { ChatCompletionChunk, ChatCompletionMessageFunctionToolCall } from 'openai/resources/chat/completions'
import type { CompletionUsage } from 'openai/resources/completions'
import { isObject, must, mustEqual, mustFit, parseObject, readFrames, type Fields } from './frames.js'

/** What a stream of chat chunks said. */
export interface ChatRead {
  readonly id: string
  readonly model: string
  readonly message: {
    role: 'assistant'
    content: string | null
    reasoning_content?: string
    tool_calls?: ChatCompletionMessageFunctionToolCall[]
  }
  /** `null` where an error ended the stream. */
  readonly finishReason: string | null
  readonly usage: CompletionUsage | null
  readonly error: Fields | null
  readonly comments: number
}

const FINISH = ['stop', 'length', 'tool_calls']

/** Reads a stream of `chat.completion.chunk`s; `includeUsage` is what the request asked for. */
export function readChatStream(text: string, { includeUsage = false } = {}): ChatRead {
  const { frames, comments } = readFrames(text, false)
  must(frames.pop()?.data === '[DONE]', 'the stream does not end with [DONE]')
  let first: ChatCompletionChunk | undefined
  let usage: CompletionUsage | null = null
  let finishReason: string | null = null
  let error: Fields | null = null
  let content = ''
  let reasoning = ''
  const calls: ChatCompletionMessageFunctionToolCall[] = []

  const readDelta = (delta: Fields, where: string) => {
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'role') must(value === 'assistant' && where === 'chunk 0', `${where}: a role, ${String(value)}`)
      else if (name === 'content' || name === 'reasoning_content') {
        must(typeof value === 'string', `${where}: ${name} is no text`)
        must(value !== '' || where === 'chunk 0', `${where}: ${name} is empty`)
        if (name === 'content') content += value
        else reasoning += value
      } else if (name === 'tool_calls') {
        must(Array.isArray(value) && value.length > 0, `${where}: tool_calls is no filled array`)
        for (const part of value as unknown[]) readCall(part, where)
      } else throw new Error(`${where}: a delta with ${name}`)
    }
  }
  const readCall = (part: unknown, where: string) => {
    must(isObject(part) && isObject(part.function), `${where}: a tool call without function`)
    const { index, function: made } = part
    if (index === calls.length) {
      mustFit(part, { index: 'count', id: 'filled', type: 'any', function: 'object' }, `${where}: a call`)
      mustEqual(part.type, 'function', `${where}: type`)
      mustFit<{ name: string; arguments: string }>(made, { name: 'filled', arguments: 'string' }, `${where}: function`)
      must(!calls.some(({ id }) => id === part.id), `${where}: the id ${String(part.id)} came before`)
      calls.push({ id: part.id as string, type: 'function', function: { ...made } })
    } else {
      must(index === calls.length - 1, `${where}: a part of call ${String(index)} after ${calls.length} calls`)
      mustFit(part, { index: 'count', function: 'object' }, `${where}: more of a call`)
      mustFit<{ arguments: string }>(made, { arguments: 'filled' }, `${where}: function`)
      const last = calls.at(-1)
      if (last) last.function.arguments += made.arguments
    }
  }

  for (const [at, { data }] of frames.entries()) {
    const where = `chunk ${at}`
    const value = parseObject(data, where)
    must(error === null && usage === null, `${where} comes after the end`)
    if ('error' in value) {
      must(finishReason === null, `${where}: an error after the finish`)
      mustFit<{ error: Fields }>(value, { error: 'object' }, where)
      const kinds = { message: 'filled', type: 'any', param: 'string|null', code: 'string|null' }
      mustFit(value.error, kinds, `${where}: error`)
      must(KNOWN_ERRORS.includes(value.error.type as string), `${where}: error of type ${String(value.error.type)}`)
      error = value.error
      continue
    }
    mustFit<Pick<ChatCompletionChunk, 'id' | 'object' | 'created' | 'model' | 'choices' | 'usage'>>(
      value,
      {
        id: 'filled',
        object: 'filled',
        created: 'count',
        model: 'filled',
        choices: 'array',
        usage: includeUsage ? 'object|null' : 'null?',
      },
      where,
    )
    const chunk: ChatCompletionChunk = value
    first ??= chunk
    mustEqual(chunk.object, 'chat.completion.chunk', `${where}: object`)
    for (const name of ['id', 'created', 'model'] as const) mustEqual(chunk[name], first[name], `${where}: ${name}`)
    if (chunk.choices.length === 0) {
      must(includeUsage && finishReason !== null, `${where}: no choice`)
      usage = readUsage(chunk.usage, where)
      continue
    }
    must(chunk.choices.length === 1, `${where}: ${chunk.choices.length} choices`)
    const choice: unknown = chunk.choices[0]
    const kinds = { index: 'count', delta: 'object', finish_reason: 'filled|null', logprobs: 'null?' }
    mustFit<{ index: number; delta: Fields; finish_reason: string | null; logprobs: null }>(choice, kinds, where)
    mustEqual(choice.index, 0, `${where}: index`)
    mustEqual(chunk.usage ?? null, null, `${where}: usage beside a choice`)
    must(finishReason === null, `${where} comes after the finish`)
    must(at > 0 || choice.delta.role === 'assistant', `${where} has no role`)
    readDelta(choice.delta, where)
    finishReason = choice.finish_reason
    must(finishReason === null || FINISH.includes(finishReason), `${where}: finish_reason ${String(finishReason)}`)
  }

  must(first !== undefined || error !== null, 'an empty stream')
  must(error !== null || finishReason !== null, 'no finish_reason')
  must(!includeUsage || usage !== null || error !== null, 'no usage')
  if (error === null) {
    must((finishReason === 'tool_calls') === calls.length > 0 || finishReason === 'length', 'finish_reason and calls')
    if (finishReason === 'tool_calls') for (const call of calls) parseObject(call.function.arguments, 'arguments')
  }
  return {
    id: first?.id ?? '',
    model: first?.model ?? '',
    message: {
      role: 'assistant',
      content: content === '' && calls.length > 0 ? null : content,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    },
    finishReason,
    usage,
    error,
    comments,
  }
}

const KNOWN_ERRORS = ['server_error', 'invalid_request_error', 'authentication_error', 'rate_limit_error']

function readUsage(usage: unknown, where: string): CompletionUsage {
  const kinds = { prompt_tokens: 'count', completion_tokens: 'count', total_tokens: 'count' }
  mustFit<CompletionUsage>(
    usage,
    { ...kinds, prompt_tokens_details: 'object', completion_tokens_details: 'object' },
    `${where}: usage`,
  )
  mustEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, `${where}: total_tokens`)
  must((usage.prompt_tokens_details?.cached_tokens ?? 0) <= usage.prompt_tokens, `${where}: cached_tokens`)
  must(
    (usage.completion_tokens_details?.reasoning_tokens ?? 0) <= usage.completion_tokens,
    `${where}: reasoning_tokens`,
  )
  return usage
}
