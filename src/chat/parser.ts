import { randomBytes } from 'node:crypto'
import { MarkerSearch, partialLength } from './marker.js'
import { ThinkReader } from './think.js'
import { CLOSE_TOOL_CALL, OPEN_TOOL_CALL, ToolBlock, type BlockStep, type SpelledCall } from './tool-call.js'
import type { ChatPart, ToolCall } from './types.js'

/**
 * Turns a model's raw output into reasoning, content and tool calls, as it comes: the parts are the same however the output
 * is cut into pieces, and nothing is held longer than it takes to tell what it is. Every character is looked at a bounded
 * number of times.
 */
export class ChatParser {
  private think: ThinkReader | undefined
  private readonly content = new ContentReader()
  private callCount = 0

  /** `thinking`: the output starts inside a reasoning block. */
  constructor({ thinking }: { thinking: boolean }) {
    this.think = thinking ? new ThinkReader() : undefined
  }

  /** Whether the output so far has not left the reasoning block. */
  get insideReasoning(): boolean {
    return this.think !== undefined
  }

  /** Tool calls found so far. */
  get toolCalls(): number {
    return this.callCount
  }

  push(text: string): ChatPart[] {
    if (this.think === undefined) return this.parts('', this.content.push(text))
    const { reasoning, rest } = this.think.push(text)
    if (rest === undefined) return this.parts(reasoning, [])
    this.think = undefined
    return this.parts(reasoning, this.content.push(rest))
  }

  /** Releases what was held back. */
  end(): ChatPart[] {
    return this.think === undefined ? this.parts('', this.content.end()) : this.parts(this.think.end(), [])
  }

  private parts(reasoning: string, content: readonly (string | SpelledCall)[]): ChatPart[] {
    const parts: ChatPart[] = reasoning === '' ? [] : [{ type: 'reasoning', text: reasoning }]
    let text = ''
    const flush = (): void => {
      if (text !== '') parts.push({ type: 'content', text })
      text = ''
    }
    for (const item of content) {
      if (typeof item === 'string') text += item
      else {
        flush()
        this.callCount += 1
        parts.push({ type: 'tool_call', call: toCall(item) })
      }
    }
    flush()
    return parts
  }
}

function toCall({ name, arguments: text }: SpelledCall): ToolCall {
  return { id: `call_${randomBytes(12).toString('hex')}`, type: 'function', function: { name, arguments: text } }
}

/** Reads what follows the reasoning: text and tool-call blocks. */
class ContentReader {
  /** Text that may be the beginning of an opening marker. */
  private held = ''
  private block: ToolBlock | undefined
  /** Looks for the end of a block that turned out to be text. */
  private textBlock: MarkerSearch | undefined
  private readonly space = new SpaceKeeper()
  private out: (string | SpelledCall)[] = []

  push(text: string): (string | SpelledCall)[] {
    let rest: string | undefined = text
    while (rest !== undefined) rest = this.step(rest)
    return this.take()
  }

  end(): (string | SpelledCall)[] {
    // A block that ends as text may hold further blocks behind its closing marker.
    while (this.block !== undefined) {
      let rest = this.closeBlock(this.block.end())
      while (rest !== undefined) rest = this.step(rest)
    }
    this.emit(this.held)
    this.held = ''
    this.out.push(this.space.end())
    return this.take()
  }

  private take(): (string | SpelledCall)[] {
    const { out } = this
    this.out = []
    return out
  }

  private emit(text: string): void {
    this.out.push(this.space.push(text))
  }

  /** Reads text in the present state; what is left of it for another state, if anything. */
  private step(text: string): string | undefined {
    if (this.block !== undefined) return this.closeBlock(this.block.push(text))
    if (this.textBlock !== undefined) return this.passBlock(this.textBlock, text)
    const all = this.held + text
    const at = all.indexOf(OPEN_TOOL_CALL)
    const end = at >= 0 ? at : all.length - partialLength(all, OPEN_TOOL_CALL)
    this.emit(all.slice(0, end))
    this.held = at >= 0 ? '' : all.slice(end)
    if (at < 0) return undefined
    this.block = new ToolBlock()
    return all.slice(at + OPEN_TOOL_CALL.length)
  }

  private closeBlock(step: BlockStep): string | undefined {
    if (step.state === 'open') return undefined
    this.block = undefined
    if (step.state === 'calls') {
      this.space.drop()
      this.out.push(...step.calls)
    } else {
      this.emit(OPEN_TOOL_CALL + step.text)
      this.textBlock = new MarkerSearch(CLOSE_TOOL_CALL)
    }
    return step.rest
  }

  /** A block that is text goes out as it comes, up to its closing marker. */
  private passBlock(search: MarkerSearch, text: string): string | undefined {
    const { after } = search.push(text)
    const end = text.length - (after?.length ?? 0)
    this.emit(text.slice(0, end))
    if (after === undefined) return undefined
    this.textBlock = undefined
    return after
  }
}

/**
 * Keeps the white space of content back until it is known what it stands next to: beside a tool call it is dropped, and so
 * are line feeds at the very start and content that is nothing else; all other goes out as it is.
 */
class SpaceKeeper {
  private kept = ''
  private started = false
  private afterCall = false

  /** The text to send now. */
  push(text: string): string {
    let end = text.length
    while (end > 0 && /\s/.test(text[end - 1]!)) end -= 1
    const tail = text.slice(end)
    if (end === 0) {
      this.kept += tail
      return ''
    }
    const whole = this.kept + text.slice(0, end)
    const out = this.afterCall ? whole.trimStart() : this.started ? whole : whole.replace(/^\n+/, '')
    this.kept = tail
    this.started = true
    this.afterCall = false
    return out
  }

  /** A tool call stands here: white space before and behind it goes. */
  drop(): void {
    this.kept = ''
    this.afterCall = true
  }

  /** What may be sent at the end. */
  end(): string {
    const out = this.started && !this.afterCall ? this.kept : ''
    this.kept = ''
    return out
  }
}
