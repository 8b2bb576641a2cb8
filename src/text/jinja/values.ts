import { Float, MAX_DEPTH } from '../json.js'
import { Str } from '../str.js'

/** Keyword arguments of a call. */
export type Kwargs = ReadonlyMap<string, Value>

/** Something a template can call. */
export class Fn {
  constructor(
    readonly name: string,
    readonly call: (args: readonly Value[], kwargs: Kwargs) => Value,
  ) {}
}

/** A mapping; keys are always data, because they may come from a request. */
export class Dict {
  constructor(readonly map: ReadonlyMap<string, Value>) {}
}

/** What `namespace()` makes: the one thing a template can assign members of. */
export class Namespace {
  constructor(readonly map: Map<string, Value>) {}
}

/**
 * A value of the template language. `undefined` is Jinja's Undefined, `null` None, `number` and `bigint` Python's int
 * (always whole), {@link Float} its float, arrays are lists and tuples alike.
 */
export type Value =
  undefined | null | boolean | number | bigint | Float | Str | readonly Value[] | Dict | Namespace | Fn

/** A template that cannot be rendered with the values it was given. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError'
}

/** Python's name of a value's type, for messages. */
export function typeName(value: Value): string {
  if (value === undefined) return 'Undefined'
  if (value === null) return 'NoneType'
  if (typeof value === 'boolean') return 'bool'
  if (typeof value === 'number' || typeof value === 'bigint') return 'int'
  if (value instanceof Float) return 'float'
  if (value instanceof Str) return 'str'
  if (isList(value)) return 'list'
  if (value instanceof Dict) return 'dict'
  return value instanceof Namespace ? 'Namespace' : 'function'
}

export function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value)
}

/** A value that counts as a number in arithmetic: booleans do, as in Python. */
export function isNumber(value: Value): value is boolean | number | bigint | Float {
  return typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean' || value instanceof Float
}

export function truthy(value: Value): boolean {
  if (value instanceof Str) return value.length > 0
  if (isList(value)) return value.length > 0
  if (value instanceof Dict) return value.map.size > 0
  if (value instanceof Float) return value.value !== 0
  return value instanceof Namespace || value instanceof Fn || Boolean(value)
}

/** Python's `==`: by value, numbers and booleans across types. */
export function equal(a: Value, b: Value): boolean {
  if (a instanceof Str || b instanceof Str) return a instanceof Str && b instanceof Str && a.text === b.text
  // Loose equality compares number and bigint by value, as Python does.
  if (isNumber(a) && isNumber(b)) return unwrap(a) == unwrap(b)
  if (isList(a) && isList(b)) return a.length === b.length && a.every((item, i) => equal(item, b[i]))
  if (a instanceof Dict && b instanceof Dict) {
    return a.map.size === b.map.size && [...a.map].every(([key, item]) => b.map.has(key) && equal(item, b.map.get(key)))
  }
  return a === b
}

/** Order of two numbers, texts or lists: negative, zero or positive. */
export function compare(a: Value, b: Value): number {
  if (isNumber(a) && isNumber(b)) {
    const [x, y] = [unwrap(a), unwrap(b)]
    return x < y ? -1 : x > y ? 1 : 0
  }
  if (a instanceof Str && b instanceof Str) return compareText(a.text, b.text)
  if (isList(a) && isList(b)) {
    for (let i = 0; i < Math.min(a.length, b.length); i++) {
      if (!equal(a[i], b[i])) return compare(a[i], b[i])
    }
    return a.length - b.length
  }
  throw new TemplateError(`cannot order ${typeName(a)} and ${typeName(b)}`)
}

/** Order by code point, which differs from UTF-16 order above U+FFFF. */
export function compareText(a: string, b: string): number {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    if (a.charCodeAt(i) !== b.charCodeAt(i)) return (a.codePointAt(i) ?? 0) - (b.codePointAt(i) ?? 0)
  }
  return a.length - b.length
}

/** The JavaScript number behind a numeric value. */
export function unwrap(value: boolean | number | bigint | Float): number | bigint {
  if (value instanceof Float) return value.value
  return typeof value === 'boolean' ? Number(value) : value
}

/** A whole number from a value, or an error that says what needed it. */
export function toIndex(value: Value, what: string): number {
  if (typeof value === 'number' || typeof value === 'boolean') return Number(value)
  throw new TemplateError(`${what} must be a whole number, got ${typeName(value)}`)
}

/** A text from a value, or an error that says what needed it. */
export function toStr(value: Value, what: string): Str {
  if (value instanceof Str) return value
  throw new TemplateError(`${what} must be a string, got ${typeName(value)}`)
}

/**
 * A template value of a JavaScript one: what `JSON.parse` or `parseJson` gives, or what a program passes. Every string in
 * it is data.
 */
export function fromJs(value: unknown, depth = 0): Value {
  if (depth > MAX_DEPTH) throw new TemplateError(`a value is nested deeper than ${MAX_DEPTH} levels`)
  switch (typeof value) {
    case 'string':
      return Str.data(value)
    case 'number':
      return Number.isInteger(value) ? (Object.is(value, -0) ? 0 : value) : new Float(value)
    case 'boolean':
    case 'bigint':
    case 'undefined':
      return value
    case 'object':
      if (value === null || value instanceof Str || value instanceof Float || value instanceof Dict) return value
      if (Array.isArray(value)) return value.map((item) => fromJs(item, depth + 1))
      return new Dict(members(value instanceof Map ? value : Object.entries(value), depth))
    default:
      throw new TemplateError(`a ${typeof value} can not be shown to the model`)
  }
}

function members(entries: Iterable<[unknown, unknown]>, depth: number): Map<string, Value> {
  const map = new Map<string, Value>()
  for (const [key, item] of entries) {
    if (item !== undefined) map.set(String(key), fromJs(item, depth + 1))
  }
  return map
}
