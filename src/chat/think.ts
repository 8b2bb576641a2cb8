import { MarkerSearch } from './marker.js'

const OPEN = '<think>'
const CLOSE = '</think>'

/** Reasoning found in a piece of raw output and, once the block is closed, the text after it. */
export interface ThinkStep {
  readonly reasoning: string
  readonly rest?: string
}

/**
 * Reads the reasoning block, which the prompt has opened already: it runs to the first `</think>`, or to the end. One
 * `<think>` at the very start, the model repeating the prompt's, is dropped, and so are line feeds at both edges.
 */
export class ThinkReader {
  private start: string | undefined = ''
  private readonly close = new MarkerSearch(CLOSE)
  private lineFeeds = 0
  private empty = true

  push(text: string): ThinkStep {
    let input = text
    if (this.start !== undefined) {
      input = this.start + text
      if (input.length < OPEN.length && OPEN.startsWith(input)) {
        this.start = input
        return { reasoning: '' }
      }
      this.start = undefined
      if (input.startsWith(OPEN)) input = input.slice(OPEN.length)
    }
    const { before, after } = this.close.push(input)
    const reasoning = this.trim(before)
    return after === undefined ? { reasoning } : { reasoning, rest: after }
  }

  /** Reasoning that was held back when the output ended without closing it. */
  end(): string {
    return this.trim((this.start ?? '') + this.close.end())
  }

  /** Drops line feeds at the start and keeps those at the end until more follows. */
  private trim(text: string): string {
    let start = 0
    while (this.empty && text[start] === '\n') start += 1
    let end = text.length
    while (end > start && text[end - 1] === '\n') end -= 1
    if (start === end) {
      if (!this.empty) this.lineFeeds += text.length
      return ''
    }
    const out = '\n'.repeat(this.lineFeeds) + text.slice(start, end)
    this.empty = false
    this.lineFeeds = text.length - end
    return out
  }
}
