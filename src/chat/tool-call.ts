import { wellFormed } from '../text/str.js'
import { JsonScanner } from './json-scan.js'

export const OPEN_TOOL_CALL = '<tool_call>'
export const CLOSE_TOOL_CALL = '</tool_call>'

/** A call as a block spells it; `arguments` is the model's own text of the value. */
export interface SpelledCall {
  readonly name: string
  readonly arguments: string
}

/** Where a block stands after a piece of text. */
export type BlockStep =
  | { readonly state: 'open' }
  /** The block ended in its closing marker; `rest` is the text behind it. */
  | { readonly state: 'calls'; readonly calls: readonly SpelledCall[]; readonly rest: string }
  /** The body is no list of calls: `text` is content; the closing marker is to be looked for from `rest` on. */
  | { readonly state: 'text'; readonly text: string; readonly rest: string }

/**
 * Reads the body of a tool-call block, from behind its opening marker: objects with a non-empty string `name`, with white
 * space, commas and stray opening markers around them, up to the first closing marker that lies in no JSON string. As soon
 * as the body cannot be that any more it is given up as text.
 */
export class ToolBlock {
  /** The body so far, never looked into before it is given up: it is put together from many pieces. */
  private body = ''
  /** The text of the object being read, but for the piece in hand. */
  private object = ''
  private scanner: JsonScanner | undefined
  /** The beginning of a marker between objects. */
  private tag = ''
  private stringStart = 0
  private readonly calls: SpelledCall[] = []

  push(text: string): BlockStep {
    const offset = this.body.length
    this.body += text
    let objectStart = 0
    for (let i = 0; i < text.length; i++) {
      const char = text[i]!
      const at = offset + i
      if (this.scanner !== undefined) {
        const inString = this.scanner.insideString
        const state = this.scanner.next(char)
        // A string that breaks is no JSON string, so a closing marker inside it counts.
        if (state === 'broken') return this.giveUp(inString ? this.stringStart : at)
        if (!inString && this.scanner.insideString) this.stringStart = at
        if (state === 'closed') {
          const call = readCall(this.object + text.slice(objectStart, i + 1))
          if (call === undefined) return this.giveUp(at + 1)
          this.calls.push(call)
          this.scanner = undefined
        }
      } else if (this.tag !== '' || char === '<') {
        this.tag += char
        if (this.tag === CLOSE_TOOL_CALL) return this.close(at + 1)
        if (this.tag === OPEN_TOOL_CALL) this.tag = ''
        else if (!OPEN_TOOL_CALL.startsWith(this.tag) && !CLOSE_TOOL_CALL.startsWith(this.tag)) {
          return this.giveUp(at + 1 - this.tag.length)
        }
      } else if (char === '{') {
        this.scanner = new JsonScanner()
        this.scanner.next(char)
        this.object = ''
        objectStart = i
      } else if (char !== ',' && !/\s/.test(char)) return this.giveUp(at)
    }
    if (this.scanner !== undefined) this.object += text.slice(objectStart)
    return { state: 'open' }
  }

  /** The output ended inside the block. */
  end(): BlockStep {
    return this.giveUp(this.scanner?.insideString === true ? this.stringStart : this.body.length)
  }

  private close(end: number): BlockStep {
    if (this.calls.length === 0) return this.giveUp(end - CLOSE_TOOL_CALL.length)
    return { state: 'calls', calls: this.calls, rest: this.body.slice(end) }
  }

  private giveUp(from: number): BlockStep {
    return { state: 'text', text: this.body.slice(0, from), rest: this.body.slice(from) }
  }
}

/** The call that an object spells; undefined without a non-empty string `name`. */
function readCall(object: string): SpelledCall | undefined {
  const fields = members(object)
  const spelledName = fields.get('name')
  if (spelledName?.startsWith('"') !== true) return undefined
  const name = wellFormed(JSON.parse(spelledName) as string)
  return name === ''
    ? undefined
    : { name, arguments: argumentsText(fields.get('arguments') ?? fields.get('parameters')) }
}

/** The members of a JSON object, each value as its own text; of doubled keys the last wins. */
function members(object: string): Map<string, string> {
  const found = new Map<string, string>()
  let depth = 0
  let keyStart = 0
  let colon = -1
  for (let i = 0; i < object.length; i++) {
    const char = object[i]!
    if (char === '"') i = stringEnd(object, i)
    else if (char === '{' || char === '[') {
      depth += 1
      if (depth === 1) keyStart = i + 1
    } else if (char === ':' && depth === 1) colon = i
    else {
      if (depth === 1 && colon >= 0 && (char === ',' || char === '}')) {
        found.set(JSON.parse(object.slice(keyStart, colon)) as string, object.slice(colon + 1, i).trim())
        keyStart = i + 1
        colon = -1
      }
      if (char === '}' || char === ']') depth -= 1
    }
  }
  return found
}

/** Index of the quote that ends the string whose first quote is at `start`. */
function stringEnd(text: string, start: number): number {
  let i = start + 1
  while (text[i] !== '"') i += text[i] === '\\' ? 2 : 1
  return i
}

/** Arguments as a client gets them: `{}` where there are none, a string that holds JSON decoded once, else as spelled. */
function argumentsText(spelled: string | undefined): string {
  if (spelled === undefined || spelled === 'null') return '{}'
  if (!spelled.startsWith('"')) return spelled
  const inner = wellFormed(JSON.parse(spelled) as string)
  if (inner === '') return '{}'
  try {
    JSON.parse(inner)
    return inner
  } catch {
    return spelled
  }
}
