import type { ChatMessage, HistoryToolCall } from '../../chat/types.js'
import { invalidRequest, quote } from '../../wire/errors.js'
import type { InputItem, InputPart } from './items-schema.js'
import type { CountBody } from './schema.js'

/** A turn of the assistant that is being put together. */
class Turn {
  reasoning = ''
  content: string | undefined
  readonly calls: HistoryToolCall[] = []

  /** Whether a message belongs to this turn: a second one does only beside calls. */
  takesMessage(): boolean {
    return this.content === undefined || this.calls.length > 0
  }

  message(): ChatMessage {
    return {
      role: 'assistant',
      content: this.content ?? null,
      ...(this.reasoning === '' ? {} : { reasoning_content: this.reasoning }),
      ...(this.calls.length === 0 ? {} : { tool_calls: this.calls }),
    }
  }
}

/** The conversation of a request, instructions included. Throws 400 for references to what is not kept. */
export function readInput({ instructions, input }: Pick<CountBody, 'instructions' | 'input'>): ChatMessage[] {
  const messages: ChatMessage[] = typeof instructions === 'string' ? [{ role: 'system', content: instructions }] : []
  if (typeof input === 'string') return [...messages, { role: 'user', content: input }]
  let turn: Turn | undefined
  const flush = (): void => {
    if (turn) messages.push(turn.message())
    turn = undefined
  }
  for (const [i, item] of (input ?? []).entries()) {
    switch (item.type) {
      case 'reasoning': {
        // Reasoning comes before what it led to.
        if (turn?.content !== undefined || turn?.calls.length) flush()
        turn ??= new Turn()
        turn.reasoning += (item.content ?? []).map(({ text }) => text).join('')
        break
      }
      case 'function_call':
        turn ??= new Turn()
        turn.calls.push(call(item.call_id, item.name, item.arguments))
        break
      case 'custom_tool_call':
        turn ??= new Turn()
        turn.calls.push(call(item.call_id, item.name, JSON.stringify({ input: item.input })))
        break
      case 'function_call_output':
      case 'custom_tool_call_output':
        flush()
        messages.push({ role: 'tool', tool_call_id: item.call_id, content: plainText(item.output) })
        break
      case 'item_reference':
        checkReference(item, i)
        break
      default: {
        const content = plainText(item.content ?? '')
        if (item.role !== 'assistant') {
          flush()
          messages.push({ role: item.role, content })
          break
        }
        if (turn?.takesMessage() === false) flush()
        turn ??= new Turn()
        turn.content = (turn.content ?? '') + content
      }
    }
  }
  flush()
  if (messages.length === 0) throw invalidRequest('input must not be empty', 'input')
  return messages
}

function call(id: string, name: string, text: string): HistoryToolCall {
  return { id, type: 'function', function: { name, arguments: text } }
}

/** Clients refer to reasoning that they believe to be kept; the call after it is there whole, so it can be done without. */
function checkReference({ id }: Extract<InputItem, { type: 'item_reference' }>, i: number): void {
  if (id.startsWith('rs_')) return
  const message =
    `input[${i}] refers to ${quote(id)}, and nothing is kept here. ` +
    'Send the item itself; clients do so when they are told not to store (store: false).'
  throw invalidRequest(message, `input[${i}]`)
}

/** Parts are joined without a separator. Of a picture in a tool's output the model is told that it was left out. */
function plainText(content: string | readonly InputPart[]): string {
  if (typeof content === 'string') return content
  return content
    .map((part) => {
      if (part.type === 'input_image') return '[image left out: this model reads text only]'
      if (part.type === 'input_file') return '[file left out: this model reads text only]'
      return part.text ?? part.refusal ?? ''
    })
    .join('')
}
