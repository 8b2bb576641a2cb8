import { Float } from '../json.js'
import { Str } from '../str.js'
import { capitalize, checkLength, join, method, replace, strip } from './methods.js'
import { display, toJson, type JsonStyle } from './print.js'
import {
  compare,
  compareText,
  Dict,
  equal,
  Fn,
  isList,
  isNumber,
  Namespace,
  TemplateError,
  toIndex,
  toStr,
  truthy,
  typeName,
  unwrap,
  type Kwargs,
  type Value,
} from './values.js'

/** A filter: the value before the bar, then the arguments in brackets. */
export type Filter = (value: Value, args: readonly Value[], kwargs: Kwargs) => Value

/** The items a loop or a filter goes through: keys of mappings, characters of texts, nothing of an undefined value. */
export function iterate(value: Value): readonly Value[] {
  if (isList(value)) return value
  if (value === undefined) return []
  if (value instanceof Dict) return [...value.map.keys()].map((key) => Str.data(key))
  if (value instanceof Str) return characters(value)
  throw new TemplateError(`${typeName(value)} is not iterable`)
}

/** The code points of a text, each with its provenance. */
export function characters(value: Str): Str[] {
  let at = 0
  return Array.from(value.text, (char) => value.slice(at, (at += char.length)))
}

/** A member by name or index as `value.name` and `value[name]` find it, methods left out. */
export function member(value: Value, key: Value): Value {
  if (key instanceof Str) {
    return value instanceof Dict || value instanceof Namespace ? value.map.get(key.text) : undefined
  }
  if (typeof key !== 'number') return undefined
  if (isList(value)) return value.at(key)
  if (value instanceof Str) return characters(value).at(key)
  return undefined
}

/** A member by a dotted path, as `map(attribute='function.name')` takes it. */
function memberPath(value: Value, path: Value): Value {
  if (!(path instanceof Str)) return member(value, path)
  return path.text
    .split('.')
    .reduce<Value>((at, part) => member(at, /^[0-9]+$/.test(part) ? Number(part) : Str.data(part)), value)
}

function size(value: Value): number {
  if (value instanceof Str) return characters(value).length
  if (value instanceof Dict) return value.map.size
  return iterate(value).length
}

function number(value: Value, parse: (text: string) => number | bigint | Float | undefined, fallback: Value): Value {
  if (typeof value === 'boolean') return parse(value ? '1' : '0')
  if (isNumber(value)) return parse(String(unwrap(value)))
  return (value instanceof Str ? parse(value.text.trim()) : undefined) ?? fallback
}

function toInt(text: string): number | bigint | undefined {
  if (/^[+-]?[0-9]+$/.test(text)) {
    const value = BigInt(text.replace('+', ''))
    return Number.isSafeInteger(Number(value)) ? Number(value) : value
  }
  const value = Math.trunc(Number(text))
  return text !== '' && Number.isFinite(value) ? value : undefined
}

function toFloat(text: string): Float | undefined {
  const value = Number(text)
  return text === '' || Number.isNaN(value) ? undefined : new Float(value)
}

function rounded(value: Value, digits: number, how: string): Float {
  if (!isNumber(value)) throw new TemplateError(`cannot round ${typeName(value)}`)
  const scale = 10 ** digits
  const scaled = Number(unwrap(value)) * scale
  const whole = how === 'ceil' ? Math.ceil(scaled) : how === 'floor' ? Math.floor(scaled) : Math.round(scaled)
  return new Float(whole / scale)
}

function indent(value: Str, args: readonly Value[], kwargs: Kwargs): Str {
  const width = args[0] ?? kwargs.get('width') ?? 4
  const pad = width instanceof Str ? width : Str.own(' '.repeat(Math.min(toIndex(width, 'width'), 1000)))
  const first = truthy(args[1] ?? kwargs.get('first'))
  const blank = truthy(args[2] ?? kwargs.get('blank'))
  const lines = (method(value, 'split') as Fn).call([Str.own('\n')], new Map()) as Str[]
  checkLength(value.length + lines.length * pad.length)
  const padded = lines.map((line, i) =>
    (i > 0 || first) && (blank || line.length > 0) ? Str.concat([pad, line]) : line,
  )
  return join(padded, Str.own('\n'))
}

function jsonStyle(args: readonly Value[], kwargs: Kwargs): JsonStyle {
  const option = (i: number, name: string): Value => args[i] ?? kwargs.get(name) ?? undefined
  const separators = option(2, 'separators')
  const spaces = option(1, 'indent')
  return {
    ensureAscii: truthy(option(0, 'ensure_ascii')),
    indent: spaces === undefined ? undefined : Math.min(toIndex(spaces, 'indent'), 64),
    separators: isList(separators) ? [text(separators[0]), text(separators[1])] : undefined,
    sortKeys: truthy(option(3, 'sort_keys')),
  }
}

function text(value: Value): string {
  return toStr(value, 'a separator').text
}

function fold(value: Value, caseSensitive: boolean): Value {
  return value instanceof Str && !caseSensitive ? value.map((run) => run.toLowerCase()) : value
}

function sort(value: Value, args: readonly Value[], kwargs: Kwargs): Value[] {
  const reverse = truthy(args[0] ?? kwargs.get('reverse'))
  const exact = truthy(args[1] ?? kwargs.get('case_sensitive'))
  const path = args[2] ?? kwargs.get('attribute')
  const keyed = iterate(value).map((item) => ({ item, key: fold(path == null ? item : memberPath(item, path), exact) }))
  keyed.sort((a, b) => (reverse ? compare(b.key, a.key) : compare(a.key, b.key)))
  return keyed.map(({ item }) => item)
}

function dictSort(value: Value, args: readonly Value[], kwargs: Kwargs): Value[] {
  if (!(value instanceof Dict)) throw new TemplateError(`cannot sort ${typeName(value)} as a mapping`)
  const exact = truthy(args[0] ?? kwargs.get('case_sensitive'))
  const by = args[1] ?? kwargs.get('by')
  const reverse = truthy(args[2] ?? kwargs.get('reverse'))
  const index = by instanceof Str && by.text === 'value' ? 1 : 0
  const pairs = [...value.map].map(([key, item]): Value[] => [Str.data(key), item])
  const order = (a: Value[], b: Value[]): number => compare(fold(a[index], exact), fold(b[index], exact))
  return pairs.sort((a, b) => (reverse ? order(b, a) : order(a, b)))
}

function unique(value: Value): Value[] {
  const kept: Value[] = []
  const seen = new Set<string>()
  for (const item of iterate(value)) {
    const key = item instanceof Str ? `s${item.text.toLowerCase()}` : `v${toJson(item ?? null).text}`
    if (!seen.has(key)) kept.push(item)
    seen.add(key)
  }
  return kept
}

/** The test named by an argument, bound to the arguments after it; truth where none is named. */
function testOf(args: readonly Value[]): (value: Value) => boolean {
  const [name, ...rest] = args
  if (name === undefined) return truthy
  const test = tests.get(toStr(name, 'the test').text)
  if (test === undefined) throw new TemplateError(`no test named ${text(name)}`)
  return (value) => test(value, rest[0])
}

function map(value: Value, args: readonly Value[], kwargs: Kwargs): Value[] {
  const path = kwargs.get('attribute')
  if (path !== undefined) {
    const fallback = kwargs.get('default')
    return iterate(value).map((item) => memberPath(item, path) ?? fallback)
  }
  const filter = filters.get(toStr(args[0], 'the filter').text)
  if (filter === undefined) throw new TemplateError(`no filter named ${text(args[0])}`)
  return iterate(value).map((item) => filter(item, args.slice(1), kwargs))
}

function extreme(value: Value, sign: number): Value {
  const items = iterate(value)
  return items.length === 0 ? undefined : items.reduce((best, item) => (compare(item, best) * sign > 0 ? item : best))
}

function sum(value: Value, [path]: readonly Value[], kwargs: Kwargs): Value {
  const attribute = path ?? kwargs.get('attribute')
  const items = iterate(value).map((item) => (attribute === undefined ? item : memberPath(item, attribute)))
  const total = items.reduce<number>((acc, item) => {
    if (!isNumber(item)) throw new TemplateError(`cannot sum ${typeName(item)}`)
    return acc + Number(unwrap(item))
  }, 0)
  return items.some((item) => item instanceof Float) ? new Float(total) : total
}

function reversed(value: Value): Value {
  return value instanceof Str ? Str.concat(characters(value).reverse()) : iterate(value).toReversed()
}

/** Jinja's filters, as far as chat templates use them. */
export const filters: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  [
    'abs',
    (value) => {
      if (value instanceof Float) return new Float(Math.abs(value.value))
      if (!isNumber(value)) throw new TemplateError(`no absolute value of ${typeName(value)}`)
      const plain = unwrap(value)
      return plain < 0 ? -plain : plain
    },
  ],
  ['attr', (value, [name]) => member(value, name)],
  ['capitalize', (value) => capitalize(display(value))],
  ['count', size],
  ['length', size],
  ['default', otherwise],
  ['d', otherwise],
  ['dictsort', dictSort],
  ['first', (value) => iterate(value)[0]],
  ['last', (value) => iterate(value).at(-1)],
  ['float', (value, [fallback = new Float(0)]) => number(value, toFloat, fallback)],
  ['int', (value, [fallback = 0]) => number(value, toInt, fallback)],
  ['indent', (value, args, kwargs) => indent(display(value), args, kwargs)],
  ['items', (value) => (value === undefined ? [] : dictItems(value))],
  [
    'join',
    (value, [separator = Str.empty], kwargs) => {
      const path = kwargs.get('attribute')
      const items = iterate(value).map((item) => display(path === undefined ? item : memberPath(item, path)))
      return join(items, display(kwargs.get('d') ?? separator))
    },
  ],
  ['list', iterate],
  ['lower', (value) => display(value).map((run) => run.toLowerCase())],
  ['upper', (value) => display(value).map((run) => run.toUpperCase())],
  ['title', (value) => titleWords(display(value))],
  ['trim', (value, [chars]) => strip(display(value), chars, true, true)],
  ['map', map],
  ['max', (value) => extreme(value, 1)],
  ['min', (value) => extreme(value, -1)],
  ['select', (value, args) => iterate(value).filter(testOf(args))],
  ['reject', (value, args) => iterate(value).filter((item) => !testOf(args)(item))],
  ['selectattr', (value, [path, ...rest]) => iterate(value).filter((item) => testOf(rest)(memberPath(item, path)))],
  ['rejectattr', (value, [path, ...rest]) => iterate(value).filter((item) => !testOf(rest)(memberPath(item, path)))],
  ['replace', (value, args, kwargs) => replace(display(value), args[0], args[1], args[2] ?? kwargs.get('count'))],
  ['reverse', reversed],
  ['round', (value, [digits = 0, how]) => rounded(value, toIndex(digits, 'precision'), how ? text(how) : 'common')],
  ['safe', (value) => value],
  ['sort', sort],
  ['string', (value) => display(value)],
  ['sum', sum],
  ['tojson', (value, args, kwargs) => toJson(value, jsonStyle(args, kwargs))],
  ['unique', unique],
])

function otherwise(value: Value, args: readonly Value[], kwargs: Kwargs): Value {
  const fallback = args[0] ?? kwargs.get('default_value') ?? Str.empty
  const falsyToo = truthy(args[1] ?? kwargs.get('boolean'))
  return value === undefined || (falsyToo && !truthy(value)) ? fallback : value
}

function dictItems(value: Value): Value {
  if (value instanceof Dict) return [...value.map].map(([key, item]): Value[] => [Str.data(key), item])
  throw new TemplateError(`${typeName(value)} has no items`)
}

/** The filter `title` knows fewer word borders than the method. */
function titleWords(value: Str): Str {
  return value.map((run) => run.replace(/[^-\s({[<]+/g, (word) => word[0]!.toUpperCase() + word.slice(1).toLowerCase()))
}

const isInteger = (value: Value): boolean => typeof value === 'number' || typeof value === 'bigint'

function parity(value: Value): number {
  return Math.abs(Number(BigInt(toIndex(value, 'the value')) % 2n))
}

/** Jinja's tests (`x is name`), as far as chat templates use them. */
export const tests: ReadonlyMap<string, (value: Value, other?: Value) => boolean> = new Map([
  ['boolean', (value) => typeof value === 'boolean'],
  ['callable', (value) => value instanceof Fn],
  ['defined', (value) => value !== undefined],
  ['undefined', (value) => value === undefined],
  ['none', (value) => value === null],
  ['true', (value) => value === true],
  ['false', (value) => value === false],
  ['string', (value) => value instanceof Str],
  ['number', isNumber],
  ['integer', isInteger],
  ['float', (value) => value instanceof Float],
  ['mapping', (value) => value instanceof Dict],
  ['iterable', (value) => value === undefined || isList(value) || value instanceof Str || value instanceof Dict],
  ['sequence', (value) => value === undefined || isList(value) || value instanceof Str || value instanceof Dict],
  ['even', (value) => parity(value) === 0],
  ['odd', (value) => parity(value) === 1],
  ['lower', (value) => compareText(display(value).text, display(value).text.toLowerCase()) === 0],
  ['upper', (value) => compareText(display(value).text, display(value).text.toUpperCase()) === 0],
  ['sameas', (value, other) => value === other],
  ...(['eq', 'equalto', '=='] as const).map((name) => [name, equal] as [string, typeof equal]),
  ['ne', (value, other) => !equal(value, other)],
  ['lt', (value, other) => compare(value, other) < 0],
  ['le', (value, other) => compare(value, other) <= 0],
  ['gt', (value, other) => compare(value, other) > 0],
  ['ge', (value, other) => compare(value, other) >= 0],
  ['in', (value, other) => contains(other, value)],
])

/** `item in container`. */
export function contains(container: Value, item: Value): boolean {
  if (container === undefined) return false
  if (container instanceof Str) return container.text.includes(toStr(item, 'what is looked for in a string').text)
  if (isList(container)) return container.some((each) => equal(each, item))
  if (container instanceof Dict) return item instanceof Str && container.map.has(item.text)
  throw new TemplateError(`${typeName(container)} is not a container`)
}
