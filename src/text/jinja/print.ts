import { Float, MAX_DEPTH } from '../json.js'
import { Str } from '../str.js'
import { compareText, Dict, Fn, isList, Namespace, TemplateError, typeName, type Value } from './values.js'

/** A float as Python's `repr` writes it: shortest digits that read back, exponent below 1e-4 and from 1e16. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity'
  if (value === 0) return Object.is(value, -0) ? '-0.0' : '0.0'
  const [digits = '', exponent = '0'] = value.toExponential().split('e')
  const power = Number(exponent)
  if (power < -4 || power >= 16) {
    return `${digits}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`
  }
  const plain = String(value)
  return plain.includes('.') ? plain : `${plain}.0`
}

/** An integer in full: JavaScript would write large ones with an exponent. */
function integerText(value: number | bigint): string {
  return Number.isSafeInteger(value) ? String(value) : BigInt(value).toString()
}

/** `str(value)`, as `{{ value }}` prints it. */
export function display(value: Value): Str {
  if (value instanceof Str) return value
  return value === undefined ? Str.empty : Str.concat(repr(value, 0))
}

/** The parts of `repr(value)`. */
function repr(value: Value, depth: number): Str[] {
  if (depth > MAX_DEPTH) throw new TemplateError(`a value is nested deeper than ${MAX_DEPTH} levels`)
  if (value === undefined) return [Str.data('Undefined')]
  if (value === null) return [Str.data('None')]
  if (typeof value === 'boolean') return [Str.data(value ? 'True' : 'False')]
  if (typeof value === 'number' || typeof value === 'bigint') return [Str.data(integerText(value))]
  if (value instanceof Float) return [Str.data(floatText(value.value))]
  if (value instanceof Str) return quoted(value)
  if (isList(value)) {
    const items = value.flatMap((item, i) => [...(i > 0 ? [Str.data(', ')] : []), ...repr(item, depth + 1)])
    return [Str.data('['), ...items, Str.data(']')]
  }
  if (value instanceof Fn) return [Str.data(`<function ${value.name}>`)]
  const items = [...value.map].flatMap(([key, item], i) => [
    ...(i > 0 ? [Str.data(', ')] : []),
    ...quoted(Str.data(key)),
    Str.data(': '),
    ...repr(item, depth + 1),
  ])
  return [Str.data('{'), ...items, Str.data('}')]
}

function quoted(text: Str): Str[] {
  const quote = text.text.includes("'") && !text.text.includes('"') ? '"' : "'"
  const escaped = text.map((run) =>
    run.replace(/[\\\n\r\t'"]/g, (char) => {
      if (char === '\n') return '\\n'
      if (char === '\r') return '\\r'
      if (char === '\t') return '\\t'
      return char === '\\' || char === quote ? `\\${char}` : char
    }),
  )
  return [Str.data(quote), escaped, Str.data(quote)]
}

/** How {@link toJson} prints. The defaults are those of `tojson` in Transformers' chat templates. */
export interface JsonStyle {
  /** Spaces a level, or undefined for one line. */
  indent?: number | undefined
  ensureAscii?: boolean
  sortKeys?: boolean
  separators?: readonly [string, string] | undefined
}

/** `json.dumps(value, ensure_ascii=False)` and its options; strings inside keep their provenance. */
export function toJson(value: Value, style: JsonStyle = {}): Str {
  const [comma, colon] = style.separators ?? [style.indent === undefined ? ', ' : ',', ': ']
  const out: Str[] = []
  const put = (text: string): unknown => out.push(Str.data(text))
  const string = (text: Str): void => {
    out.push(Str.data('"'), text.map(style.ensureAscii === true ? escapeAscii : escape), Str.data('"'))
  }
  const newline = (depth: number): unknown =>
    style.indent === undefined ? undefined : put('\n' + ' '.repeat(style.indent * depth))

  const write = (item: Value, depth: number): void => {
    if (depth > MAX_DEPTH) throw new TemplateError(`a value is nested deeper than ${MAX_DEPTH} levels`)
    if (item instanceof Str) string(item)
    else if (item === null || typeof item === 'boolean') put(String(item))
    else if (typeof item === 'number' || typeof item === 'bigint') put(integerText(item))
    else if (item instanceof Float) put(floatText(item.value))
    else if (isList(item)) container('[', ']', item, depth, (child) => write(child, depth + 1))
    else if (item instanceof Dict || item instanceof Namespace) {
      const entries = [...item.map]
      if (style.sortKeys === true) entries.sort(([a], [b]) => compareText(a, b))
      container('{', '}', entries, depth, ([key, child]) => {
        string(Str.data(key))
        put(colon)
        write(child, depth + 1)
      })
    } else throw new TemplateError(`${typeName(item)} is not JSON serializable`)
  }
  const container = <T>(open: string, close: string, items: readonly T[], depth: number, one: (item: T) => void) => {
    put(open)
    items.forEach((item, i) => {
      if (i > 0) put(comma)
      newline(depth + 1)
      one(item)
    })
    if (items.length > 0) newline(depth)
    put(close)
  }

  write(value, 0)
  return Str.concat(out)
}

function escape(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

function escapeAscii(text: string): string {
  return escape(text).replace(/[\u007f-\uffff]/g, (char) => '\\u' + char.charCodeAt(0).toString(16).padStart(4, '0'))
}
