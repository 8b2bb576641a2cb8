import { Str } from '../str.js'
import { Dict, Fn, Namespace, TemplateError, toIndex, toStr, type Kwargs, type Value } from './values.js'
import { display } from './print.js'

/** Longest list that `range` makes, as in Jinja's sandbox. */
const MAX_RANGE = 100_000

function range(args: readonly Value[]): Value {
  const bounds = args.map((value) => toIndex(value, 'a bound of range'))
  const [start = 0, stop = 0, step = 1] = bounds.length === 1 ? [0, bounds[0]] : bounds
  if (step === 0) throw new TemplateError('range step cannot be zero')
  const length = Math.max(Math.ceil((stop - start) / step), 0)
  if (length > MAX_RANGE) throw new TemplateError(`range is longer than ${MAX_RANGE}`)
  return Array.from({ length }, (_, i) => start + i * step)
}

function namespace(args: readonly Value[], kwargs: Kwargs): Value {
  const from = args[0] instanceof Dict ? args[0].map : []
  return new Namespace(new Map([...from, ...kwargs]))
}

/** Today's date and time in Python's `strftime` form; the codes that templates use. */
function strftimeNow(args: readonly Value[]): Value {
  const now = new Date()
  const two = (value: number): string => String(value).padStart(2, '0')
  const name = (options: Intl.DateTimeFormatOptions): string => new Intl.DateTimeFormat('en-US', options).format(now)
  const codes: Record<string, () => string> = {
    Y: () => String(now.getFullYear()),
    y: () => two(now.getFullYear() % 100),
    m: () => two(now.getMonth() + 1),
    d: () => two(now.getDate()),
    H: () => two(now.getHours()),
    I: () => two(now.getHours() % 12 || 12),
    M: () => two(now.getMinutes()),
    S: () => two(now.getSeconds()),
    p: () => (now.getHours() < 12 ? 'AM' : 'PM'),
    b: () => name({ month: 'short' }),
    B: () => name({ month: 'long' }),
    a: () => name({ weekday: 'short' }),
    A: () => name({ weekday: 'long' }),
    '%': () => '%',
  }
  const format = toStr(args[0], 'the format').text
  return Str.data(format.replace(/%(.)/g, (code, letter: string) => codes[letter]?.() ?? code))
}

/** What every chat template finds without being given it. */
export const globals: ReadonlyMap<string, Value> = new Map<string, Value>([
  ...(['true', 'True'] as const).map((name) => [name, true] as const),
  ...(['false', 'False'] as const).map((name) => [name, false] as const),
  ...(['none', 'None'] as const).map((name) => [name, null] as const),
  ['range', new Fn('range', range)],
  ['namespace', new Fn('namespace', namespace)],
  ['dict', new Fn('dict', (_args, kwargs) => new Dict(kwargs))],
  ['strftime_now', new Fn('strftime_now', strftimeNow)],
  [
    'raise_exception',
    new Fn('raise_exception', ([message]) => {
      throw new TemplateError(display(message).text)
    }),
  ],
])
