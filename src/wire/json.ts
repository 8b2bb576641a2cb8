import { randomUUID } from 'node:crypto'
import { invalidRequest } from './errors.js'

/** Nesting that no honest request needs; deeper ones would only exhaust stacks further on. */
const MAX_DEPTH = 200

/** Longer ones are left to the double: turning them into a `bigint` would take more than linear time. */
const bigInteger = /^-?\d{16,400}$/

const QUOTE = 0x22
const BACKSLASH = 0x5c

/**
 * Parses a request body. Different from `JSON.parse`: a byte order mark is accepted, nesting is bounded, escapes of
 * lone surrogates become U+FFFD, and whole numbers that a double cannot hold become a `bigint`. Of doubled keys the last
 * wins.
 *
 * @throws ApiError 400 when the text is not JSON or nested too deep.
 */
export function parseJson(body: string): unknown {
  let text = body.startsWith('\uFEFF') ? body.slice(1) : body
  const big = scan(text)
  if (/\\u[dD][89a-fA-F]/.test(text)) text = replaceLoneSurrogates(text)
  try {
    return big ? parseWithBigIntegers(text) : (JSON.parse(text) as unknown)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw invalidRequest(`The request body is not valid JSON: ${error.message}`, undefined, { cause: error })
  }
}

/** Index just behind the string that starts at `start`. */
function stringEnd(text: string, start: number): number {
  let end = start
  for (;;) {
    end = text.indexOf('"', end + 1)
    if (end === -1) return text.length
    let escapes = 0
    while (text.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++
    if (escapes % 2 === 0) return end + 1
  }
}

/** Refuses deep nesting before anything is built, and says whether long whole numbers may occur. */
function scan(text: string): boolean {
  let depth = 0
  let digits = 0
  let long = false
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit >= 0x30 && unit <= 0x39) {
      if (++digits === 16) long = true
      continue
    }
    digits = 0
    if (unit === QUOTE) at = stringEnd(text, at) - 1
    else if (unit === 0x5b || unit === 0x7b) {
      if (++depth > MAX_DEPTH) {
        throw invalidRequest(`The request body is nested deeper than ${MAX_DEPTH} levels.`)
      }
    } else if (unit === 0x5d || unit === 0x7d) depth--
  }
  return long
}

/** Walks escape by escape (they occur in strings only), so that `\\ud800` stays the six characters it spells. */
function replaceLoneSurrogates(text: string): string {
  const escape = /\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|[^])/g
  return text.replace(escape, (whole, lone?: string) => (lone === undefined ? whole : '\\ufffd'))
}

/** Big numbers travel through `JSON.parse` as strings under a mark that nobody can guess. */
function parseWithBigIntegers(text: string): unknown {
  JSON.parse(text)
  const mark = randomUUID()
  const number = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y
  let marked = ''
  let copied = 0
  for (let at = 0; at < text.length;) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) {
      at = stringEnd(text, at)
      continue
    }
    number.lastIndex = at
    const literal = number.exec(text)?.[0]
    if (literal === undefined) {
      at++
      continue
    }
    if (bigInteger.test(literal) && !Number.isSafeInteger(Number(literal))) {
      marked += `${text.slice(copied, at)}"${mark}${literal}"`
      copied = at + literal.length
    }
    at += literal.length
  }
  marked += text.slice(copied)
  return JSON.parse(marked, (_, value: unknown) =>
    typeof value === 'string' && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  ) as unknown
}
