/** What a {@link JsonScanner} makes of a character. */
export type ScanState = 'open' | 'closed' | 'broken'

/** What may come next, between tokens. */
type Expect = 'value' | 'value or ]' | 'key' | 'key or }' | ':' | ', or close'

const WORDS: Readonly<Record<string, string>> = { t: 'true', f: 'false', n: 'null' }
type Stage = 'minus' | 'zero' | 'whole' | 'point' | 'fraction' | 'e' | 'sign' | 'exponent'

const DIGITS = '0123456789'
/** What may follow each stage of a number, and the stage it leads to. */
const NUMBER: Readonly<Record<Stage, readonly (readonly [string, Stage])[]>> = {
  minus: [
    ['0', 'zero'],
    ['123456789', 'whole'],
  ],
  zero: [
    ['.', 'point'],
    ['eE', 'e'],
  ],
  whole: [
    [DIGITS, 'whole'],
    ['.', 'point'],
    ['eE', 'e'],
  ],
  point: [[DIGITS, 'fraction']],
  fraction: [
    [DIGITS, 'fraction'],
    ['eE', 'e'],
  ],
  e: [
    ['+-', 'sign'],
    [DIGITS, 'exponent'],
  ],
  sign: [[DIGITS, 'exponent']],
  exponent: [[DIGITS, 'exponent']],
}
/** Stages at which a number may end. */
const WHOLE_NUMBERS: ReadonlySet<Stage> = new Set<Stage>(['zero', 'whole', 'fraction', 'exponent'])

/**
 * Recognises one JSON object, a character at a time, so that a stream knows at once where it ends or stops being JSON.
 * Nesting is kept on a list, not on the call stack. Feed it from the opening brace on.
 */
export class JsonScanner {
  private readonly nesting: ('{' | '[')[] = []
  private expect: Expect = 'value'
  private inString = false
  private stringIsKey = false
  /** Hex digits still due after `\u`; -1 right after a backslash. */
  private escape = 0
  private word = ''
  private number: Stage | undefined

  /** Whether the scanner stands inside a string. */
  get insideString(): boolean {
    return this.inString
  }

  /** Takes the next character. After `closed` or `broken` the scanner is done. */
  next(char: string): ScanState {
    if (this.inString) return this.nextInString(char)
    if (this.word !== '') {
      if (this.word[0] !== char) return 'broken'
      this.word = this.word.slice(1)
      return 'open'
    }
    if (this.number !== undefined) {
      const next = NUMBER[this.number].find(([chars]) => chars.includes(char))
      if (next === undefined && !WHOLE_NUMBERS.has(this.number)) return 'broken'
      this.number = next?.[1]
      if (next !== undefined) return 'open'
    }
    if (char === ' ' || char === '\n' || char === '\t' || char === '\r') return 'open'
    return this.between(char)
  }

  private nextInString(char: string): ScanState {
    if (char < ' ') return 'broken'
    if (this.escape === -1) {
      this.escape = char === 'u' ? 4 : 0
      return char === 'u' || '"\\/bfnrt'.includes(char) ? 'open' : 'broken'
    }
    if (this.escape > 0) {
      this.escape -= 1
      return '0123456789abcdefABCDEF'.includes(char) ? 'open' : 'broken'
    }
    if (char === '\\') this.escape = -1
    else if (char === '"') {
      this.inString = false
      this.expect = this.stringIsKey ? ':' : ', or close'
    }
    return 'open'
  }

  private between(char: string): ScanState {
    switch (this.expect) {
      case ':':
        this.expect = 'value'
        return char === ':' ? 'open' : 'broken'
      case 'key or }':
      case 'key':
        if (char === '}' && this.expect === 'key or }') return this.close('{')
        return char === '"' ? this.openString(true) : 'broken'
      case ', or close':
        if (char === ',') {
          this.expect = this.nesting.at(-1) === '{' ? 'key' : 'value'
          return 'open'
        }
        return char === '}' ? this.close('{') : char === ']' ? this.close('[') : 'broken'
      default:
        return char === ']' && this.expect === 'value or ]' ? this.close('[') : this.value(char)
    }
  }

  private value(char: string): ScanState {
    this.expect = ', or close'
    if (char === '"') return this.openString(false)
    if (char === '{' || char === '[') {
      this.nesting.push(char)
      this.expect = char === '{' ? 'key or }' : 'value or ]'
      return 'open'
    }
    if (char === '-') this.number = 'minus'
    else if (char === '0') this.number = 'zero'
    else if (char >= '1' && char <= '9') this.number = 'whole'
    else {
      const word = WORDS[char]
      if (word === undefined) return 'broken'
      this.word = word.slice(1)
    }
    return 'open'
  }

  private openString(isKey: boolean): ScanState {
    this.inString = true
    this.stringIsKey = isKey
    return 'open'
  }

  private close(bracket: '{' | '['): ScanState {
    if (this.nesting.pop() !== bracket) return 'broken'
    this.expect = ', or close'
    return this.nesting.length === 0 ? 'closed' : 'open'
  }
}
