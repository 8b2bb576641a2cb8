/**
 * A string that remembers which of its characters the chat template wrote itself.
 *
 * Everything a request brings is data and must never become a control token, however it is spelled and whatever the
 * template does with it. So strings keep their provenance through every operation of the template language: the real text
 * stays what the template's logic sees, and beside it lies a list of the stretches that come from the template's source.
 * Only control tokens that lie wholly inside one such stretch count.
 */
export class Str {
  readonly text: string
  /** Flat, ascending, disjoint, never touching pairs [start, end) of the template's own characters. */
  readonly own: readonly number[]

  private constructor(text: string, own: readonly number[]) {
    this.text = text
    this.own = own
  }

  static readonly empty = new Str('', [])

  /** Text from the template's source. */
  static own(text: string): Str {
    return text === '' ? Str.empty : new Str(text, [0, text.length])
  }

  /** Text from a request; lone surrogates become U+FFFD. */
  static data(text: string): Str {
    return text === '' ? Str.empty : new Str(wellFormed(text), [])
  }

  get length(): number {
    return this.text.length
  }

  /** Characters from `start` up to `end`, as `String.slice` with ends inside the text. */
  slice(start: number, end: number = this.text.length): Str {
    if (start === 0 && end === this.text.length) return this
    if (end <= start) return Str.empty
    const own: number[] = []
    for (let i = firstEndingAfter(this.own, start); i < this.own.length; i += 2) {
      const from = Math.max(this.own[i]!, start)
      const to = Math.min(this.own[i + 1]!, end)
      if (from >= to) break
      own.push(from - start, to - start)
    }
    return new Str(this.text.slice(start, end), own)
  }

  static concat(parts: readonly Str[]): Str {
    if (parts.length === 1) return parts[0]!
    const own: number[] = []
    let length = 0
    for (const part of parts) {
      for (let i = 0; i < part.own.length; i += 2) {
        const start = length + part.own[i]!
        const end = length + part.own[i + 1]!
        if (own.length > 0 && own[own.length - 1] === start) own[own.length - 1] = end
        else own.push(start, end)
      }
      length += part.length
    }
    return length === 0 ? Str.empty : new Str(parts.map((part) => part.text).join(''), own)
  }

  /** Applies a character-wise change (case, escaping) to each stretch, keeping its provenance. */
  map(change: (text: string) => string): Str {
    const parts: Str[] = []
    let done = 0
    for (let i = 0; i < this.own.length; i += 2) {
      parts.push(Str.data(change(this.text.slice(done, this.own[i]))))
      done = this.own[i + 1]!
      parts.push(Str.own(change(this.text.slice(this.own[i], done))))
    }
    parts.push(Str.data(change(this.text.slice(done))))
    return Str.concat(parts)
  }
}

/** Index of the first pair whose end lies after `position`. */
function firstEndingAfter(own: readonly number[], position: number): number {
  let low = 0
  let high = own.length / 2
  while (low < high) {
    const middle = (low + high) >> 1
    if (own[2 * middle + 1]! > position) high = middle
    else low = middle + 1
  }
  return 2 * low
}

const LONE_SURROGATE = /\p{Surrogate}/gu

/** The text with U+FFFD for every surrogate that is not part of a pair. */
export function wellFormed(text: string): string {
  return text.replace(LONE_SURROGATE, '\uFFFD')
}
