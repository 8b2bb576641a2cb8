import { isDeepStrictEqual } from 'node:util'

/** One event as it came over the wire. */
export interface Frame {
  /** The text of the `event:` line, if there was one. */
  readonly name: string | undefined
  /** What stood behind `data:`. */
  readonly data: string
}

/** Throws what is wrong with a stream, if anything is. */
export function must(holds: boolean, wrong: string): asserts holds {
  if (!holds) throw new Error(wrong)
}

/** Cuts a stream into its events: `event:` (if `named`) and `data:`, one line each, an empty line between. */
export function readFrames(text: string, named: boolean): { frames: Frame[]; comments: number } {
  const blocks = text.split('\n\n')
  must(blocks.pop() === '', 'the stream does not end with an empty line')
  const frames: Frame[] = []
  let comments = 0
  for (const block of blocks) {
    if (/^:[^\n]*$/.test(block)) comments++
    else {
      const match = (named ? /^event: ([^\n]+)\ndata: ([^\n]+)$/ : /^data: ([^\n]+)$/).exec(block)
      must(match !== null, `not an event: ${JSON.stringify(block)}`)
      frames.push({ name: named ? match[1] : undefined, data: match.at(-1) ?? '' })
    }
  }
  return { frames, comments }
}

/** An object's own fields, whatever they are. */
export type Fields = Record<string, unknown>

export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

type Kind = 'string' | 'filled' | 'count' | 'boolean' | 'object' | 'array' | 'any' | 'null'

const KINDS: Record<Kind, (value: unknown) => boolean> = {
  string: (value) => typeof value === 'string',
  filled: (value) => typeof value === 'string' && value !== '',
  count: (value) => Number.isSafeInteger(value) && Number(value) >= 0,
  boolean: (value) => typeof value === 'boolean',
  object: isObject,
  array: Array.isArray,
  any: () => true,
  null: (value) => value === null,
}

/** Fields and what they hold: kinds, with `|` between; those that may be absent end in `?`. */
export type Shape<T> = { readonly [K in Exclude<keyof T, 'type'>]-?: string }

/** Checks that an object has just these fields, besides `type`, and that they are of these kinds. */
export function mustFit<T>(value: unknown, shape: Shape<T>, where: string): asserts value is T {
  must(isObject(value), `${where} is no object`)
  const kinds = shape as Record<string, string>
  for (const name of Object.keys(value)) must(name === 'type' || name in kinds, `${where} has a field ${name}`)
  for (const [name, text] of Object.entries(kinds)) {
    if (!(name in value) && text.endsWith('?')) continue
    must(name in value, `${where} lacks ${name}`)
    const fits = text.replace(/\?$/, '').split('|') as Kind[]
    must(
      fits.some((kind) => KINDS[kind](value[name])),
      `${where}: ${name} is ${JSON.stringify(value[name])}, not ${text}`,
    )
  }
}

export function mustEqual(found: unknown, expected: unknown, what: string): void {
  must(
    isDeepStrictEqual(found, expected),
    `${what}: ${JSON.stringify(found)} where ${JSON.stringify(expected)} was expected`,
  )
}

export function parseObject(text: string, what: string): Fields {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Error(`${what} is no JSON: ${text}`)
  }
  must(isObject(value), `${what} is no object: ${text}`)
  return value
}

/** A copy without ids and times, to compare answers of different requests with. */
export function withoutIds<T>(value: T): T {
  const changing = new Set(['id', 'call_id', 'created', 'created_at', 'completed_at'])
  return JSON.parse(JSON.stringify(value, (key, inner: unknown) => (changing.has(key) ? undefined : inner))) as T
}
