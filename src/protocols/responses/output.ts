import type { ChatFinish, ChatPart, ToolCall } from '../../chat/types.js'
import { newId } from '../../wire/openai/answer.js'
import type { ItemStatus, MessageItem, OutputEvent, OutputItem, ReasoningItem } from './types.js'

/** How an answer's parts become items. */
export interface OutputOptions {
  readonly includeReasoning: boolean
  /** Names of the tools that were asked for as custom ones. */
  readonly customTools: ReadonlySet<string>
}

/** The item that text is being added to. */
interface OpenItem {
  readonly type: 'reasoning' | 'content'
  readonly id: string
  readonly index: number
  readonly texts: string[]
}

/**
 * The output of a response, item by item, and the events that tell of it. An answer that is not streamed goes the same way, so
 * both have the same items.
 */
export class ResponseOutput {
  readonly #options: OutputOptions
  readonly #done: OutputItem[] = []
  #open: OpenItem | undefined

  constructor(options: OutputOptions) {
    this.#options = options
  }

  /** The items that are done. */
  get items(): readonly OutputItem[] {
    return [...this.#done]
  }

  push(part: ChatPart): OutputEvent[] {
    if (part.type === 'tool_call') return [...this.#close('completed'), ...this.#call(part.call)]
    if (part.type === 'reasoning' && !this.#options.includeReasoning) return []
    const before = this.#open?.type === part.type ? [] : [...this.#close('completed'), ...this.#start(part.type)]
    const open = this.#open!
    open.texts.push(part.text)
    const at = place(open)
    const delta: OutputEvent =
      part.type === 'reasoning'
        ? { type: 'response.reasoning_text.delta', ...at, delta: part.text }
        : { type: 'response.output_text.delta', ...at, delta: part.text, logprobs: [] }
    return [...before, delta]
  }

  /** The answer is over. One that ended by itself has a message or a call, be the message empty. */
  finish(reason: ChatFinish['reason']): OutputEvent[] {
    if (reason === 'length') return this.#close('incomplete')
    const silent = this.#open?.type !== 'content' && this.#done.every(({ type }) => type === 'reasoning')
    const message = silent ? [...this.#close('completed'), ...this.#start('content')] : []
    return [...message, ...this.#close('completed')]
  }

  #start(type: OpenItem['type']): OutputEvent[] {
    const open = { type, id: newId(type === 'reasoning' ? 'rs_' : 'msg_'), index: this.#done.length, texts: [] }
    this.#open = open
    const item = { ...textItem(open, 'in_progress'), content: [] }
    return [
      { type: 'response.output_item.added', output_index: open.index, item },
      { type: 'response.content_part.added', ...place(open), part: textPart(open) },
    ]
  }

  #close(status: ItemStatus): OutputEvent[] {
    const open = this.#open
    if (open === undefined) return []
    const item = textItem(open, status)
    this.#open = undefined
    this.#done.push(item)
    const at = place(open)
    const part = textPart(open)
    return [
      part.type === 'reasoning_text'
        ? { type: 'response.reasoning_text.done', ...at, text: part.text }
        : { type: 'response.output_text.done', ...at, text: part.text, logprobs: [] },
      { type: 'response.content_part.done', ...at, part },
      { type: 'response.output_item.done', output_index: open.index, item },
    ]
  }

  /** A call comes whole. */
  #call({ id: callId, function: { name, arguments: text } }: ToolCall): OutputEvent[] {
    const index = this.#done.length
    const custom = this.#options.customTools.has(name)
    const id = newId(custom ? 'ctc_' : 'fc_')
    const at = { item_id: id, output_index: index }
    const head = { id, call_id: callId, name }
    if (custom) {
      const input = customInput(text)
      const item = { ...head, type: 'custom_tool_call' as const, input }
      this.#done.push(item)
      return [
        { type: 'response.output_item.added', output_index: index, item: { ...item, input: '' } },
        ...(input === '' ? [] : [{ type: 'response.custom_tool_call_input.delta' as const, ...at, delta: input }]),
        { type: 'response.custom_tool_call_input.done', ...at, input },
        { type: 'response.output_item.done', output_index: index, item },
      ]
    }
    const item = { ...head, type: 'function_call' as const, arguments: text, status: 'completed' as const }
    this.#done.push(item)
    return [
      {
        type: 'response.output_item.added',
        output_index: index,
        item: { ...item, arguments: '', status: 'in_progress' },
      },
      { type: 'response.function_call_arguments.delta', ...at, delta: text },
      { type: 'response.function_call_arguments.done', ...at, name, arguments: text },
      { type: 'response.output_item.done', output_index: index, item },
    ]
  }
}

function place({ id, index }: OpenItem) {
  return { item_id: id, output_index: index, content_index: 0 as const }
}

function textPart({ type, texts }: OpenItem) {
  const text = texts.join('')
  return type === 'reasoning'
    ? { type: 'reasoning_text' as const, text }
    : { type: 'output_text' as const, text, annotations: [], logprobs: [] }
}

function textItem(open: OpenItem, status: ItemStatus): ReasoningItem | MessageItem {
  const { id } = open
  const part = textPart(open)
  return part.type === 'reasoning_text'
    ? { id, type: 'reasoning', summary: [], content: [part], status }
    : { id, type: 'message', role: 'assistant', content: [part], status }
}

/** The input of a custom tool's call; what the model said instead, where it did not keep to the form. */
function customInput(text: string): string {
  try {
    const { input } = Object(JSON.parse(text)) as { input?: unknown }
    return typeof input === 'string' ? input : text
  } catch {
    return text
  }
}
