import type * as Anthropic from '@anthropic-ai/sdk/resources/messages'
import { isObject, must, mustEqual, mustFit, parseObject, readFrames, type Fields, type Shape } from './frames.js'

type Event = Anthropic.RawMessageStreamEvent
type Block = Anthropic.ThinkingBlock | Anthropic.TextBlock | Anthropic.ToolUseBlock

/** What a stream of `/v1/messages` said. */
export interface MessageRead {
  /** The message put together; `null` where an error ended the stream before it was whole. */
  readonly message: Anthropic.Message | null
  /** The texts of all `tool_use` inputs, as they were sent. */
  readonly inputs: string[]
  readonly error: Fields | null
  readonly pings: number
}

const SHAPES: { readonly [T in Event['type']]: Shape<Extract<Event, { type: T }>> } = {
  message_start: { message: 'object' },
  content_block_start: { index: 'count', content_block: 'object' },
  content_block_delta: { index: 'count', delta: 'object' },
  content_block_stop: { index: 'count' },
  message_delta: { delta: 'object', usage: 'object' },
  message_stop: {},
}

const STOP_REASONS = ['end_turn', 'max_tokens', 'stop_sequence', 'tool_use']
export const ERROR_TYPES = [
  'invalid_request_error',
  'authentication_error',
  'permission_error',
  'not_found_error',
  'request_too_large',
  'rate_limit_error',
  'api_error',
  'overloaded_error',
]

export function readMessagesStream(text: string): MessageRead {
  const { frames, comments } = readFrames(text, true)
  must(comments === 0, 'a comment; this protocol has pings')
  const reader = new Reader()
  let pings = 0
  for (const [at, { name, data }] of frames.entries()) {
    const where = `event ${at}, ${name}`
    const event = parseObject(data, where)
    mustEqual(event.type, name, `${where}: type`)
    must(!reader.ended, `${where} comes after the end`)
    if (name === 'ping') {
      mustEqual(event, { type: 'ping' }, where)
      pings++
    } else if (name === 'error') {
      reader.error = checkMessagesError(event)
    } else {
      must(name !== undefined && name in SHAPES, `${where} is unknown`)
      mustFit(event, SHAPES[name as Event['type']] as Shape<Fields>, where)
      reader.take(event as unknown as Event, where)
    }
  }
  must(reader.ended, 'the stream was cut')
  const { error, inputs } = reader
  return { message: error ? null : reader.message, inputs, error, pings }
}

/** Checks the body of an error, in a stream or as an answer. */
export function checkMessagesError(body: unknown): Fields {
  mustFit<{ error: Fields; request_id: string }>(body, { error: 'object', request_id: 'filled|null?' }, 'the error')
  mustEqual((body as Fields).type, 'error', 'the error: type')
  const { error } = body
  mustFit<{ type: string; message: string }>(error, { message: 'filled' }, 'the error')
  must(ERROR_TYPES.includes(error.type), `the error: type ${error.type}`)
  return body.error
}

class Reader {
  #message?: Anthropic.Message
  #open: { readonly block: Block; json: string } | undefined
  #stopped = false
  #closed = false
  error: Fields | null = null
  readonly inputs: string[] = []

  get message(): Anthropic.Message | null {
    return this.#message ?? null
  }

  get ended(): boolean {
    return this.#closed || this.error !== null
  }

  take(event: Event, where: string): void {
    if (event.type === 'message_start') {
      must(this.#message === undefined, `${where}: a second one`)
      checkMessage(event.message, where)
      mustEqual(event.message.content, [], `${where}: content`)
      mustEqual(event.message.stop_reason, null, `${where}: stop_reason`)
      this.#message = structuredClone(event.message)
      return
    }
    const message = this.#message
    must(message !== undefined, `${where} comes before message_start`)
    if (event.type === 'message_stop') {
      must(this.#stopped, `${where} without message_delta`)
      checkStop(message, where)
      this.#closed = true
      return
    }
    must(!this.#stopped, `${where} comes after message_delta`)
    if (event.type === 'message_delta') return this.#delta(message, event, where)
    if (event.type === 'content_block_start') return this.#start(message, event, where)
    const open = this.#open
    must(open !== undefined, `${where}: no block is open`)
    mustEqual(event.index, message.content.length, `${where}: index`)
    if (event.type === 'content_block_delta') return this.#add(open, event.delta, where)
    if (open.block.type === 'tool_use') {
      this.inputs.push(open.json)
      open.block.input = readInput(open.json)
    } else {
      const text = open.block.type === 'text' ? open.block.text : open.block.thinking
      must(text !== '', `${where}: an empty block`)
    }
    message.content.push(open.block)
    this.#open = undefined
  }

  #start(message: Anthropic.Message, event: Anthropic.RawContentBlockStartEvent, where: string): void {
    must(this.#open === undefined, `${where}: the block before is open`)
    mustEqual(event.index, message.content.length, `${where}: index`)
    const block = event.content_block
    checkBlock(block, where)
    const empty = block.type === 'text' ? block.text : block.type === 'thinking' ? block.thinking : block.input
    must(empty === '' || (isObject(empty) && Object.keys(empty).length === 0), `${where}: the block is not empty`)
    if (block.type === 'tool_use') {
      const known = message.content.some((other) => other.type === 'tool_use' && other.id === block.id)
      must(!known, `${where}: the id ${block.id} came before`)
    }
    this.#open = { block: structuredClone(block), json: '' }
  }

  #add(open: { block: Block; json: string }, delta: Anthropic.RawContentBlockDelta, where: string): void {
    const { block } = open
    if (delta.type === 'text_delta' && block.type === 'text') {
      mustFit<Anthropic.TextDelta>(delta, { text: 'filled' }, where)
      block.text += delta.text
    } else if (delta.type === 'thinking_delta' && block.type === 'thinking') {
      mustFit<Anthropic.ThinkingDelta>(delta, { thinking: 'filled' }, where)
      must(block.signature === '', `${where} after the signature`)
      block.thinking += delta.thinking
    } else if (delta.type === 'signature_delta' && block.type === 'thinking') {
      mustFit<Anthropic.SignatureDelta>(delta, { signature: 'string' }, where)
      block.signature = delta.signature
    } else if (delta.type === 'input_json_delta' && block.type === 'tool_use') {
      mustFit<Anthropic.InputJSONDelta>(delta, { partial_json: 'string' }, where)
      open.json += delta.partial_json
    } else throw new Error(`${where}: ${delta.type} in a block ${block.type}`)
  }

  #delta(message: Anthropic.Message, event: Anthropic.RawMessageDeltaEvent, where: string): void {
    must(this.#open === undefined, `${where}: a block is open`)
    const { delta, usage } = event
    const kinds = { stop_reason: 'filled', stop_sequence: 'string|null' }
    mustFit<Anthropic.RawMessageDeltaEvent.Delta>(delta, { ...kinds, container: 'null?', stop_details: 'null?' }, where)
    message.stop_reason = delta.stop_reason
    message.stop_sequence = delta.stop_sequence
    checkUsage(usage, where)
    // Counts are totals of the whole answer; those that are not said stay.
    const said = Object.entries(usage).filter(([, value]) => value !== null)
    Object.assign(message.usage, Object.fromEntries(said))
    this.#stopped = true
  }
}

/** Checks a whole answer that was not streamed. */
export function checkWholeMessage(value: unknown): Anthropic.Message {
  checkMessage(value, 'the message')
  for (const [at, block] of value.content.entries()) checkBlock(block, `block ${at}`)
  checkStop(value, 'the message')
  return value
}

/** A whole input: an object, or the text itself where it is none. */
function readInput(json: string): unknown {
  if (json === '') return {}
  try {
    const value: unknown = JSON.parse(json)
    return isObject(value) ? value : json
  } catch {
    return json
  }
}

function checkMessage(value: unknown, where: string): asserts value is Anthropic.Message {
  mustFit<Anthropic.Message>(
    value,
    {
      id: 'filled',
      role: 'filled',
      model: 'filled',
      content: 'array',
      stop_reason: 'filled|null',
      stop_sequence: 'string|null',
      usage: 'object',
      container: 'null?',
      diagnostics: 'null?',
      stop_details: 'null?',
    },
    `${where}: message`,
  )
  mustEqual(value.type, 'message', `${where}: type`)
  mustEqual(value.role, 'assistant', `${where}: role`)
  must(value.id.startsWith('msg_'), `${where}: id ${value.id}`)
  checkUsage(value.usage, where)
  must(Number.isInteger(value.usage.input_tokens), `${where}: input_tokens`)
}

function checkUsage(usage: unknown, where: string): void {
  mustFit<Anthropic.Usage>(
    usage,
    {
      input_tokens: 'count|null?',
      output_tokens: 'count',
      cache_creation_input_tokens: 'count|null?',
      cache_read_input_tokens: 'count|null?',
      cache_creation: 'object|null?',
      inference_geo: 'string|null?',
      output_tokens_details: 'object|null?',
      server_tool_use: 'null?',
      service_tier: 'string|null?',
      speed: 'string|null?',
    },
    `${where}: usage`,
  )
}

function checkStop({ content, stop_reason: reason, stop_sequence: sequence }: Anthropic.Message, where: string): void {
  must(STOP_REASONS.includes(String(reason)), `${where}: stop_reason ${reason}`)
  mustEqual(typeof sequence === 'string', reason === 'stop_sequence', `${where}: stop_sequence`)
  const calls = content.filter(({ type }) => type === 'tool_use').length
  must(reason === 'max_tokens' || (reason === 'tool_use') === calls > 0, `${where}: ${reason} after ${calls} calls`)
}

function checkBlock(block: unknown, where: string): asserts block is Block {
  must(isObject(block), `${where}: no block`)
  if (block.type === 'text')
    mustFit<Anthropic.TextBlock>(block, { text: 'string', citations: 'null?' }, `${where}: text`)
  else if (block.type === 'thinking')
    mustFit<Anthropic.ThinkingBlock>(block, { thinking: 'string', signature: 'string' }, `${where}: thinking`)
  else if (block.type === 'tool_use') {
    const kinds = { id: 'filled', name: 'filled', input: 'any', caller: 'object?', toolset_name: 'null?' }
    mustFit<Anthropic.ToolUseBlock>(block, kinds, `${where}: tool_use`)
    must(isObject(block.input) || typeof block.input === 'string', `${where}: input`)
  } else throw new Error(`${where}: a block ${String(block.type)}`)
}
