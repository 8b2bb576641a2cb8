import { Float } from '../json.js'
import { Str } from '../str.js'
import { contains } from './filters.js'
import { checkLength } from './methods.js'
import { display } from './print.js'
import { compare, equal, isList, isNumber, TemplateError, typeName, unwrap, type Value } from './values.js'

/** An operator with two sides; `and` and `or` are not among them, for they may skip their right side. */
export function binary(operator: string, left: Value, right: Value): Value {
  switch (operator) {
    case '==':
      return equal(left, right)
    case '!=':
      return !equal(left, right)
    case 'in':
      return contains(right, left)
    case 'not in':
      return !contains(right, left)
    case '~':
      return Str.concat([display(left), display(right)])
    case '<':
      return compare(left, right) < 0
    case '<=':
      return compare(left, right) <= 0
    case '>':
      return compare(left, right) > 0
    case '>=':
      return compare(left, right) >= 0
    case '+':
      if (left instanceof Str && right instanceof Str) {
        checkLength(left.length + right.length)
        return Str.concat([left, right])
      }
      if (isList(left) && isList(right)) {
        checkLength(16 * (left.length + right.length))
        return [...left, ...right]
      }
      break
    case '*':
      if (left instanceof Str && typeof right === 'number') return repeated(left, right)
      if (right instanceof Str && typeof left === 'number') return repeated(right, left)
      break
  }
  if (isNumber(left) && isNumber(right)) return arithmetic(operator, left, right)
  throw new TemplateError(`cannot use ${operator} on ${typeName(left)} and ${typeName(right)}`)
}

function repeated(text: Str, times: number): Str {
  checkLength(text.length * times)
  return Str.concat(Array.from({ length: Math.max(times, 0) }, () => text))
}

/** Bounds integers, whose size nothing else does. */
const MAX_BITS = 1n << 16n
const LARGEST = 1n << MAX_BITS

type Numeric = boolean | number | bigint | Float

function arithmetic(operator: string, left: Numeric, right: Numeric): Value {
  const [a, b] = [unwrap(left), unwrap(right)]
  const float = left instanceof Float || right instanceof Float || operator === '/' || (operator === '**' && b < 0)
  if (['/', '//', '%'].includes(operator) && Number(b) === 0) throw new TemplateError('division by zero')
  if (float) return new Float(onFloats(operator, Number(a), Number(b)))
  const result = onIntegers(operator, BigInt(a), BigInt(b))
  if (result > LARGEST || result < -LARGEST) throw new TemplateError('a number grows too large')
  return Number.isSafeInteger(Number(result)) ? Number(result) : result
}

function onFloats(operator: string, a: number, b: number): number {
  switch (operator) {
    case '+':
      return a + b
    case '-':
      return a - b
    case '*':
      return a * b
    case '/':
      return a / b
    case '//':
      return Math.floor(a / b)
    case '%':
      return a - b * Math.floor(a / b)
    case '**':
      return a ** b
    default:
      throw new TemplateError(`no operator ${operator}`)
  }
}

/** Integers of any size; division and remainder round down, as Python's do. */
function onIntegers(operator: string, a: bigint, b: bigint): bigint {
  switch (operator) {
    case '+':
      return a + b
    case '-':
      return a - b
    case '*':
      return a * b
    case '//':
      return (a - modulo(a, b)) / b
    case '%':
      return modulo(a, b)
    case '**':
      if (BigInt(a.toString(2).length) * b > MAX_BITS) throw new TemplateError('a number grows too large')
      return a ** b
    default:
      throw new TemplateError(`no operator ${operator}`)
  }
}

function modulo(a: bigint, b: bigint): bigint {
  const rest = a % b
  return rest !== 0n && rest < 0n !== b < 0n ? rest + b : rest
}

/** Unary plus and minus. */
export function negative(operator: string, value: Value): Value {
  if (!isNumber(value)) throw new TemplateError(`cannot use ${operator} on ${typeName(value)}`)
  if (value instanceof Float) return new Float(operator === '-' ? -value.value : value.value)
  const plain = unwrap(value)
  return operator === '-' && plain !== 0 ? -plain : plain
}
