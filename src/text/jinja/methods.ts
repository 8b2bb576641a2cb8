import { Str } from '../str.js'
import { Dict, Fn, isList, TemplateError, toIndex, toStr, type Kwargs, type Value } from './values.js'

/** What Python's `str.isspace` calls white space; JavaScript's `\s` differs in a few characters. */
// eslint-disable-next-line no-control-regex
const SPACE = /[\t-\r\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/

/** Longest text that an operation may make, so that no template can eat the memory. */
const MAX_LENGTH = 1 << 27

/** The method `name` of a value, bound to it; undefined when there is none. */
export function method(value: Value, name: string): Fn | undefined {
  if (value instanceof Str) {
    const run = strMethods.get(name)
    return run && new Fn(name, (args, kwargs) => run(value, args, kwargs))
  }
  if (value instanceof Dict) {
    const run = dictMethods.get(name)
    return run && new Fn(name, (args) => run(value, args))
  }
  return undefined
}

const dictMethods = new Map<string, (self: Dict, args: readonly Value[]) => Value>([
  ['items', (self) => [...self.map].map(([key, item]) => [Str.data(key), item])],
  ['keys', (self) => [...self.map.keys()].map((key) => Str.data(key))],
  ['values', (self) => [...self.map.values()]],
  [
    'get',
    (self, [key, fallback = null]) => {
      const found = key instanceof Str ? self.map.get(key.text) : undefined
      return found === undefined ? fallback : found
    },
  ],
])

type StrMethod = (self: Str, args: readonly Value[], kwargs: Kwargs) => Value

const strMethods = new Map<string, StrMethod>([
  ['upper', (self) => self.map((run) => run.toUpperCase())],
  ['lower', (self) => self.map((run) => run.toLowerCase())],
  ['capitalize', capitalize],
  ['title', title],
  ['strip', (self, [chars]) => strip(self, chars, true, true)],
  ['lstrip', (self, [chars]) => strip(self, chars, true, false)],
  ['rstrip', (self, [chars]) => strip(self, chars, false, true)],
  ['startswith', (self, [prefix]) => anyOf(prefix, (text) => self.text.startsWith(text))],
  ['endswith', (self, [suffix]) => anyOf(suffix, (text) => self.text.endsWith(text))],
  ['removeprefix', (self, [p]) => (self.text.startsWith(word(p)) ? self.slice(word(p).length) : self)],
  ['removesuffix', (self, [s]) => (self.text.endsWith(word(s)) ? self.slice(0, self.length - word(s).length) : self)],
  ['split', (self, args, kwargs) => split(self, args[0] ?? kwargs.get('sep'), args[1] ?? kwargs.get('maxsplit'))],
  ['rsplit', (self, args, kwargs) => rsplit(self, args[0] ?? kwargs.get('sep'), args[1] ?? kwargs.get('maxsplit'))],
  ['splitlines', (self, args, kwargs) => splitLines(self, (args[0] ?? kwargs.get('keepends')) === true)],
  ['replace', (self, args, kwargs) => replace(self, args[0], args[1], args[2] ?? kwargs.get('count'))],
  ['join', (self, [items]) => join(items, self)],
  ['count', (self, [text]) => occurrences(self.text, word(text)).length],
  ['find', (self, [text]) => self.text.indexOf(word(text))],
  ['rfind', (self, [text]) => self.text.lastIndexOf(word(text))],
  ['isdigit', (self) => /^\p{Nd}+$/u.test(self.text)],
  ['isalpha', (self) => /^\p{L}+$/u.test(self.text)],
  ['isalnum', (self) => /^[\p{L}\p{N}]+$/u.test(self.text)],
  ['isspace', (self) => self.length > 0 && strip(self, undefined, true, false).length === 0],
  ['isupper', (self) => self.text !== self.text.toLowerCase() && self.text === self.text.toUpperCase()],
  ['islower', (self) => self.text !== self.text.toUpperCase() && self.text === self.text.toLowerCase()],
])

function word(value: Value): string {
  return toStr(value, 'the argument').text
}

function anyOf(value: Value, test: (text: string) => boolean): boolean {
  return isList(value) ? value.some((item) => test(word(item))) : test(word(value))
}

/** Whether the code unit at `index` is to be stripped: white space, or one of `chars`. */
export function strip(self: Str, chars: Value, left: boolean, right: boolean): Str {
  const set = chars === undefined || chars === null ? undefined : new Set(word(chars))
  const drop = (char: string): boolean => (set === undefined ? SPACE.test(char) : set.has(char))
  let start = 0
  let end = self.length
  while (left && start < end) {
    const char = String.fromCodePoint(self.text.codePointAt(start)!)
    if (!drop(char)) break
    start += char.length
  }
  while (right && end > start) {
    const low = self.text.charCodeAt(end - 1)
    const char = self.text.slice(end - (low >= 0xdc00 && low < 0xe000 ? 2 : 1), end)
    if (!drop(char)) break
    end -= char.length
  }
  return self.slice(start, end)
}

/** Where `text` stands in `self`, without overlaps. */
function occurrences(self: string, text: string): number[] {
  if (text === '') throw new TemplateError('empty separator')
  const found: number[] = []
  for (let at = self.indexOf(text); at >= 0; at = self.indexOf(text, at + text.length)) found.push(at)
  return found
}

function limit(maxsplit: Value): number {
  const most = maxsplit === undefined ? -1 : toIndex(maxsplit, 'maxsplit')
  return most < 0 ? Infinity : most
}

function cut(self: Str, at: readonly number[], width: number): Str[] {
  const starts = [0, ...at.map((position) => position + width)]
  return starts.map((start, i) => self.slice(start, at[i] ?? self.length))
}

function split(self: Str, separator: Value, maxsplit: Value): Str[] {
  const most = limit(maxsplit)
  if (separator !== undefined && separator !== null) {
    return cut(self, occurrences(self.text, word(separator)).slice(0, most), word(separator).length)
  }
  const parts: Str[] = []
  let rest = strip(self, undefined, true, false)
  let start = 0
  for (let i = 0; i < rest.length && parts.length < most; i++) {
    if (!SPACE.test(rest.text[i]!)) continue
    if (i > start) parts.push(rest.slice(start, i))
    start = i + 1
  }
  rest = strip(rest.slice(start), undefined, true, false)
  if (rest.length > 0) parts.push(rest)
  return parts
}

function rsplit(self: Str, separator: Value, maxsplit: Value): Str[] {
  if (separator === undefined || separator === null) {
    if (limit(maxsplit) === Infinity) return split(self, separator, maxsplit)
    throw new TemplateError('rsplit with a limit needs a separator')
  }
  const found = occurrences(self.text, word(separator))
  const most = limit(maxsplit)
  return cut(self, most === 0 ? [] : found.slice(-Math.min(most, found.length || 1)), word(separator).length)
}

function splitLines(self: Str, keepEnds: boolean): Str[] {
  const lines: Str[] = []
  let start = 0
  // eslint-disable-next-line no-control-regex
  for (const match of self.text.matchAll(/\r\n|[\n-\r\u001c-\u001e\u0085\u2028\u2029]/g)) {
    const end = match.index + match[0].length
    lines.push(self.slice(start, keepEnds ? end : match.index))
    start = end
  }
  if (start < self.length) lines.push(self.slice(start))
  return lines
}

/** `str.replace`: what is put in keeps its own provenance. */
export function replace(self: Str, from: Value, to: Value, count: Value): Str {
  const old = word(from)
  const fresh = toStr(to, 'the replacement')
  const most = count === undefined || count === null ? Infinity : limit(count)
  const parts = cut(self, occurrences(self.text, old).slice(0, most), old.length)
  checkLength(self.length + fresh.length * parts.length)
  return Str.concat(parts.flatMap((part, i) => (i === 0 ? [part] : [fresh, part])))
}

/** `separator.join(items)`; items must be strings. */
export function join(items: Value, separator: Str): Str {
  if (!isList(items)) throw new TemplateError('can only join a list')
  const parts = items.map((item) => toStr(item, 'what is joined'))
  checkLength(parts.reduce((sum, part) => sum + part.length + separator.length, 0))
  return Str.concat(parts.flatMap((part, i) => (i === 0 ? [part] : [separator, part])))
}

/** Refuses to make a text longer than the limit. */
export function checkLength(length: number): void {
  if (length > MAX_LENGTH) throw new TemplateError('the template makes too much text')
}

export function capitalize(self: Str): Str {
  const first = self.text.codePointAt(0)
  const width = first !== undefined && first > 0xffff ? 2 : 1
  return Str.concat([
    self.slice(0, width).map((run) => run.toUpperCase()),
    self.slice(Math.min(width, self.length)).map((run) => run.toLowerCase()),
  ])
}

export function title(self: Str): Str {
  return self.map((run) =>
    run.replace(/\p{L}+/gu, (letters) => letters[0]!.toUpperCase() + letters.slice(1).toLowerCase()),
  )
}
