/**
 * JSON read without loss: integers of any size, the difference between 1 and 1.0, and the order of keys all survive, so
 * that printing a value again the way Python does gives what Python would have given.
 */

/** A number written with a point or an exponent. Whole ones would otherwise be taken for integers. */
export class Float {
  constructor(readonly value: number) {}
}

/** Deepest nesting that is read or printed. */
export const MAX_DEPTH = 256

/** What {@link parseJson} gives: objects as maps in source order, integers beyond 2^53 as bigint, other numbers as Float. */
export type Json = null | boolean | number | bigint | Float | string | Json[] | Map<string, Json>

/** Parses a JSON text; undefined when it is none, or is nested deeper than {@link MAX_DEPTH}. */
export function parseJson(text: string): Json | undefined {
  const reader = new Reader(text)
  const value = reader.value(0)
  return value !== undefined && reader.space() === text.length ? value : undefined
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y
const QUOTE = 0x22
const BACKSLASH = 0x5c
const SPACE = /[ \t\n\r]*/y
const WORDS: readonly (readonly [string, null | boolean])[] = [
  ['null', null],
  ['true', true],
  ['false', false],
]

/** Longer integers are refused, as Python does: turning them into numbers takes more than linear time. */
const MAX_DIGITS = 4300

function integer(digits: string): number | bigint | undefined {
  if (digits.length > MAX_DIGITS) return undefined
  const value = Number(digits)
  if (!Number.isSafeInteger(value)) return BigInt(digits)
  return value === 0 ? 0 : value
}

/** The value of a JSON string literal; undefined where an escape is wrong. */
function unquote(literal: string): string | undefined {
  try {
    return JSON.parse(literal) as string
  } catch {
    return undefined
  }
}

/** A recursive-descent reader; every method gives undefined where the text stops being JSON. */
class Reader {
  private at = 0

  constructor(private readonly text: string) {}

  /** Skips white space; the position after it. */
  space(): number {
    SPACE.lastIndex = this.at
    SPACE.test(this.text)
    return (this.at = SPACE.lastIndex)
  }

  private take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.at
    const match = pattern.exec(this.text)
    if (match === null) return undefined
    this.at = pattern.lastIndex
    return match
  }

  private takeChar(char: string): boolean {
    if (this.text[this.space()] !== char) return false
    this.at += 1
    return true
  }

  value(depth: number): Json | undefined {
    if (depth > MAX_DEPTH) return undefined
    const first = this.text[this.space()]
    if (first === '"') return this.string()
    if (first === '{') return this.object(depth)
    if (first === '[') return this.array(depth)
    for (const [word, value] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length
        return value
      }
    }
    const number = this.take(NUMBER)
    if (number === undefined) return undefined
    return number[1] === undefined && number[2] === undefined ? integer(number[0]) : new Float(Number(number[0]))
  }

  private string(): string | undefined {
    const start = this.at
    for (let i = start + 1; i < this.text.length; i++) {
      const code = this.text.charCodeAt(i)
      if (code < 0x20) return undefined
      if (code === BACKSLASH) i += 1
      else if (code === QUOTE) {
        this.at = i + 1
        return unquote(this.text.slice(start, i + 1))
      }
    }
    return undefined
  }

  private array(depth: number): Json[] | undefined {
    this.at += 1
    const items: Json[] = []
    if (this.takeChar(']')) return items
    do {
      const item = this.value(depth + 1)
      if (item === undefined) return undefined
      items.push(item)
    } while (this.takeChar(','))
    return this.takeChar(']') ? items : undefined
  }

  private object(depth: number): Map<string, Json> | undefined {
    this.at += 1
    const members = new Map<string, Json>()
    if (this.takeChar('}')) return members
    do {
      const key = this.text[this.space()] === '"' ? this.string() : undefined
      if (key === undefined || !this.takeChar(':')) return undefined
      const item = this.value(depth + 1)
      if (item === undefined) return undefined
      members.set(key, item)
    } while (this.takeChar(','))
    return this.takeChar('}') ? members : undefined
  }
}
