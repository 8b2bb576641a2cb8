import type * as OpenAI from 'openai/resources/responses/responses'
import { isObject, must, mustEqual, mustFit, parseObject, readFrames, type Fields, type Shape } from './frames.js'

type Event = OpenAI.ResponseStreamEvent

/** The events that this server has, and their fields besides `type`. */
type Known =
  | 'response.created'
  | 'response.in_progress'
  | 'response.output_item.added'
  | 'response.output_item.done'
  | 'response.content_part.added'
  | 'response.content_part.done'
  | 'response.output_text.delta'
  | 'response.output_text.done'
  | 'response.reasoning_text.delta'
  | 'response.reasoning_text.done'
  | 'response.function_call_arguments.delta'
  | 'response.function_call_arguments.done'
  | 'response.custom_tool_call_input.delta'
  | 'response.custom_tool_call_input.done'
  | 'response.completed'
  | 'response.incomplete'
  | 'response.failed'

const envelope = { response: 'object', sequence_number: 'count' }
const item = { item: 'object', output_index: 'count', sequence_number: 'count' }
const part = { item_id: 'filled', output_index: 'count', content_index: 'count', sequence_number: 'count' }
const call = { item_id: 'filled', output_index: 'count', sequence_number: 'count' }
const SHAPES: { readonly [T in Known]: Shape<Extract<Event, { type: T }>> } = {
  'response.created': envelope,
  'response.in_progress': envelope,
  'response.output_item.added': item,
  'response.output_item.done': item,
  'response.content_part.added': { ...part, part: 'object' },
  'response.content_part.done': { ...part, part: 'object' },
  'response.output_text.delta': { ...part, delta: 'filled', logprobs: 'array' },
  'response.output_text.done': { ...part, text: 'string', logprobs: 'array' },
  'response.reasoning_text.delta': { ...part, delta: 'filled' },
  'response.reasoning_text.done': { ...part, text: 'string' },
  'response.function_call_arguments.delta': { ...call, delta: 'filled' },
  'response.function_call_arguments.done': { ...call, name: 'filled', arguments: 'string' },
  'response.custom_tool_call_input.delta': { ...call, delta: 'filled' },
  'response.custom_tool_call_input.done': { ...call, input: 'string' },
  'response.completed': envelope,
  'response.incomplete': envelope,
  'response.failed': envelope,
}

const END = ['response.completed', 'response.incomplete', 'response.failed']
/** What changes between the first and the last copy of a response. */
const CHANGING = ['status', 'output', 'usage', 'error', 'incomplete_details', 'completed_at']

/** Reads a stream of `/v1/responses` and returns the final response. */
export function readResponsesStream(text: string): { response: OpenAI.Response; comments: number } {
  const { frames, comments } = readFrames(text, true)
  const reader = new Reader()
  for (const [at, { name, data }] of frames.entries()) {
    const where = `event ${at}`
    const event = parseObject(data, where)
    mustEqual(event.type, name, `${where}: type`)
    must(name !== undefined && name in SHAPES, `${where}: ${name} is unknown`)
    mustFit(event, SHAPES[name as Known] as Shape<Fields>, `${where}, ${name}`)
    mustEqual(event.sequence_number, at, `${where}: sequence_number`)
    reader.take(event as unknown as Extract<Event, { type: Known }>, `${where}, ${name}`)
  }
  must(reader.last !== undefined, 'the stream was cut')
  return { response: reader.last, comments }
}

/** An item under way: what it was when it came, and what has come of it. */
interface Open {
  readonly item: Fields & { id: string; type: string }
  readonly parts: Fields[]
  /** The part under way, and its text until now; `done` is its whole text once it was said. */
  part: { readonly type: string; text: string; done: boolean } | undefined
  /** Of calls: arguments or input until now. */
  text: string
  done: boolean
}

class Reader {
  #first?: Fields
  #count = 0
  #open: Open | undefined
  readonly #output: Fields[] = []
  /** The final response. */
  last?: OpenAI.Response

  take(event: Extract<Event, { type: Known }>, where: string): void {
    must(this.last === undefined, `${where} comes after the end`)
    const place = this.#count++
    mustEqual(event.type === 'response.created', place === 0, `${where}: response.created is the first`)
    mustEqual(event.type === 'response.in_progress', place === 1, `${where}: response.in_progress is the second`)
    if ('response' in event) return this.#envelope(event.type, event.response as unknown as Fields, where)
    mustEqual(event.output_index, this.#output.length, `${where}: output_index`)
    if (event.type === 'response.output_item.added') return this.#added(event.item as unknown as Fields, where)
    const open = this.#open
    must(open !== undefined, `${where}: no item is open`)
    if (event.type === 'response.output_item.done') return this.#itemDone(open, event.item as unknown as Fields, where)
    mustEqual(event.item_id, open.item.id, `${where}: item_id`)
    if ('content_index' in event) this.#inPart(open, event, where)
    else this.#inCall(open, event, where)
  }

  #envelope(type: string, response: Fields, where: string): void {
    checkResponse(response, where)
    if (!END.includes(type)) {
      mustEqual(response.status, 'in_progress', `${where}: status`)
      mustEqual(response.output, [], `${where}: output`)
      mustEqual(response.usage ?? null, null, `${where}: usage`)
      this.#first ??= response
      return mustEqual(response, this.#first, `${where}: the response`)
    }
    const status = type.slice('response.'.length)
    mustEqual(response.status, status, `${where}: status`)
    mustEqual(response.output, this.#output, `${where}: output`)
    must(this.#open === undefined || status === 'failed', `${where}: an item is open`)
    for (const [name, value] of Object.entries(this.#first ?? {}))
      if (!CHANGING.includes(name)) mustEqual(response[name], value, `${where}: ${name}`)
    checkFinal(response, where)
    this.last = response as unknown as OpenAI.Response
  }

  #added(added: Fields, where: string): void {
    must(this.#open === undefined, `${where}: the item before is open`)
    const { id, type } = added
    must(typeof id === 'string' && !this.#output.some((done) => done.id === id), `${where}: id ${String(id)}`)
    checkItem(added, `${where}: item`)
    must(added.status === undefined || added.status === 'in_progress', `${where}: status ${String(added.status)}`)
    const empty = type === 'function_call' ? added.arguments : type === 'custom_tool_call' ? added.input : added.content
    must(Array.isArray(empty) ? empty.length === 0 : empty === '', `${where}: the item is not empty`)
    this.#open = { item: added as Open['item'], parts: [], part: undefined, text: '', done: false }
  }

  #itemDone(open: Open, done: Fields, where: string): void {
    must(open.part === undefined, `${where}: a part is open`)
    checkItem(done, `${where}: item`)
    const { type } = open.item
    const isCall = type === 'function_call' || type === 'custom_tool_call'
    must(!isCall || open.done, `${where}: the call was not done`)
    must(isCall || open.parts.length > 0, `${where}: an item without parts`)
    const made = isCall ? { [type === 'function_call' ? 'arguments' : 'input']: open.text } : { content: open.parts }
    const status = open.item.status === undefined ? {} : { status: done.status }
    must(!('status' in done) || done.status === 'completed' || done.status === 'incomplete', `${where}: status`)
    mustEqual(done, { ...open.item, ...status, ...made }, `${where}: item`)
    this.#output.push(done)
    this.#open = undefined
  }

  #inPart(open: Open, event: Extract<Event, { type: Known; content_index: number }>, where: string): void {
    mustEqual(event.content_index, open.parts.length, `${where}: content_index`)
    if (event.type === 'response.content_part.added') {
      must(open.part === undefined, `${where}: the part before is open`)
      const { type } = event.part
      const fits = { message: 'output_text', reasoning: 'reasoning_text' }[open.item.type]
      mustEqual(type, fits, `${where}: part`)
      checkPart(event.part, `${where}: part`)
      mustEqual('text' in event.part && event.part.text, '', `${where}: text`)
      open.part = { type, text: '', done: false }
      return
    }
    const { part } = open
    must(part !== undefined, `${where}: no part is open`)
    if (event.type === 'response.content_part.done') {
      must(part.done, `${where}: the text was not done`)
      checkPart(event.part, `${where}: part`)
      mustEqual({ ...event.part }.type, part.type, `${where}: type`)
      mustEqual('text' in event.part && event.part.text, part.text, `${where}: text`)
      open.parts.push(event.part as unknown as Fields)
      open.part = undefined
      return
    }
    must(event.type.startsWith(`response.${part.type}.`), `${where} in a part ${part.type}`)
    must(!part.done, `${where} after the text was done`)
    if ('logprobs' in event) mustEqual(event.logprobs, [], `${where}: logprobs`)
    if ('delta' in event) part.text += event.delta
    else {
      mustEqual(event.text, part.text, `${where}: text`)
      part.done = true
    }
  }

  #inCall(
    open: Open,
    event: Exclude<Extract<Event, { type: Known; item_id: string }>, { content_index: number }>,
    where: string,
  ): void {
    const fits = {
      function_call: 'response.function_call_arguments.',
      custom_tool_call: 'response.custom_tool_call_input.',
    }
    const prefix = (fits as Record<string, string>)[open.item.type]
    must(prefix !== undefined && event.type.startsWith(prefix), `${where} in an item ${open.item.type}`)
    must(!open.done, `${where} after the call was done`)
    if ('delta' in event) {
      open.text += event.delta
      return
    }
    mustEqual('arguments' in event ? event.arguments : event.input, open.text, `${where}: the whole text`)
    if ('name' in event) mustEqual(event.name, open.item.name, `${where}: name`)
    open.done = true
  }
}

/** The fields that every response has, at any time. */
function checkResponse(response: Fields, where: string): void {
  const required = {
    id: /^resp_./,
    object: /^response$/,
    model: /./,
    status: /./,
  }
  for (const [name, form] of Object.entries(required))
    must(typeof response[name] === 'string' && form.test(response[name]), `${where}: ${name}`)
  must(Number.isInteger(response.created_at), `${where}: created_at`)
  for (const name of ['error', 'incomplete_details', 'instructions', 'metadata', 'temperature', 'top_p'])
    must(name in response, `${where} lacks ${name}`)
  for (const name of ['output', 'tools']) must(Array.isArray(response[name]), `${where}: ${name} is no array`)
  must(typeof response.parallel_tool_calls === 'boolean', `${where}: parallel_tool_calls`)
  must(typeof response.tool_choice === 'string' || isObject(response.tool_choice), `${where}: tool_choice`)
  // SDKs make it from the parts.
  must(!('output_text' in response), `${where}: output_text`)
}

/** What a response's last state says about itself, streamed or not. */
function checkFinal(response: Fields, where: string): void {
  const { status, error, incomplete_details: details, usage } = response
  if (status === 'failed') {
    mustFit<OpenAI.ResponseError>(error, { code: 'filled', message: 'filled' }, `${where}: error`)
  } else mustEqual(error, null, `${where}: error`)
  if (status === 'incomplete') mustEqual(details, { reason: 'max_output_tokens' }, `${where}: incomplete_details`)
  else mustEqual(details, null, `${where}: incomplete_details`)
  const output = response.output as Fields[]
  for (const [at, done] of output.entries()) {
    const cut = status !== 'completed' && at === output.length - 1
    must(cut || done.status === undefined || done.status === 'completed', `${where}: item ${at} ${String(done.status)}`)
  }
  if (status === 'failed') return
  const kinds = { input_tokens: 'count', output_tokens: 'count', total_tokens: 'count' }
  mustFit<OpenAI.ResponseUsage>(
    usage,
    { ...kinds, input_tokens_details: 'object', output_tokens_details: 'object' },
    `${where}: usage`,
  )
  mustEqual(usage.total_tokens, usage.input_tokens + usage.output_tokens, `${where}: total_tokens`)
  must(usage.input_tokens_details.cached_tokens <= usage.input_tokens, `${where}: cached_tokens`)
  must(usage.output_tokens_details.reasoning_tokens <= usage.output_tokens, `${where}: reasoning_tokens`)
}

/** Checks a whole answer that was not streamed by the rules for the last one of a stream. */
export function checkWholeResponse(response: unknown): OpenAI.Response {
  must(isObject(response), 'the response is no object')
  checkResponse(response, 'the response')
  for (const [at, done] of (response.output as Fields[]).entries()) checkItem(done, `item ${at}`)
  checkFinal(response, 'the response')
  return response as unknown as OpenAI.Response
}

function checkItem(value: Fields, where: string): void {
  const status = 'filled'
  if (value.type === 'message') {
    const kinds = { id: 'filled', role: 'filled', status, content: 'array', phase: 'filled|null?' }
    mustFit<OpenAI.ResponseOutputMessage>(value, kinds, where)
    mustEqual(value.role, 'assistant', `${where}: role`)
    for (const part of value.content) checkPart(part, `${where}: a part`)
  } else if (value.type === 'reasoning') {
    const kinds = { id: 'filled', summary: 'array', content: 'array', encrypted_content: 'null?', status: `${status}?` }
    mustFit<OpenAI.ResponseReasoningItem>(value, kinds, where)
    mustEqual(value.summary, [], `${where}: summary`)
    for (const part of value.content ?? []) checkPart(part, `${where}: a part`)
  } else if (value.type === 'function_call') {
    const kinds = { id: 'filled', call_id: 'filled', name: 'filled', arguments: 'string', status }
    mustFit<OpenAI.ResponseFunctionToolCall>(value, { ...kinds, caller: 'null?', namespace: 'filled?' }, where)
  } else if (value.type === 'custom_tool_call') {
    const kinds = { id: 'filled', call_id: 'filled', name: 'filled', input: 'string', status: `${status}?` }
    mustFit<OpenAI.ResponseCustomToolCall & { status: string }>(
      value,
      { ...kinds, caller: 'null?', namespace: 'filled?' },
      where,
    )
  } else throw new Error(`${where}: type ${String(value.type)}`)
  const prefix = { message: 'msg_', reasoning: 'rs_', function_call: 'fc_', custom_tool_call: 'ctc_' }[value.type]
  must(String(value.id).startsWith(prefix), `${where}: id ${String(value.id)}`)
}

function checkPart(value: object, where: string): void {
  const { type } = value as Fields
  if (type === 'reasoning_text') return mustFit<{ text: string }>(value, { text: 'string' }, where)
  mustEqual(type, 'output_text', `${where}: type`)
  mustFit<OpenAI.ResponseOutputText>(value, { text: 'string', annotations: 'array', logprobs: 'array?' }, where)
  mustEqual(value.annotations, [], `${where}: annotations`)
}
