import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { invalidRequest, type ApiError } from './errors.js'
import type { JsonSchema } from './json-schema.js'

/**
 * Validation in two steps, because a wrong type is reported before the model is looked at, and a wrong value after:
 * `shape` knows types and required fields, `rules` the whole schema.
 */
export interface Validator<T> {
  readonly schema: JsonSchema
  shape(body: unknown): asserts body is T
  rules(body: T): void
}

/** Keywords that judge values rather than types. */
const RULE_KEYWORDS = new Set([
  'enum',
  'const',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'minItems',
  'maxItems',
  'minLength',
  'maxLength',
])

/** The schema without its rules. The condition of an `if` stays whole: it chooses, it does not judge. */
function shapeOf(schema: JsonSchema | false): JsonSchema {
  if (schema === false) return {}
  const result: Record<string, unknown> = {}
  for (const [keyword, value] of Object.entries(schema)) {
    if (RULE_KEYWORDS.has(keyword)) continue
    if (keyword === 'properties') {
      const properties = Object.entries(value as Record<string, JsonSchema>)
      result[keyword] = Object.fromEntries(properties.map(([name, property]) => [name, shapeOf(property)]))
    } else if (keyword === 'items' || keyword === 'then') result[keyword] = shapeOf(value as JsonSchema)
    else if (keyword === 'anyOf' || keyword === 'allOf') result[keyword] = (value as JsonSchema[]).map(shapeOf)
    else result[keyword] = value
  }
  return result
}

const ajv = new Ajv2020({ allowUnionTypes: true, strictTypes: false, strictRequired: false, verbose: true })
ajv.addKeyword('x-error')

/** The part of a path that an error names to programs: a list's entry as a whole, say, where its inside is wrong. */
export type Blame = (path: readonly string[]) => readonly string[]

/** Compiles at the first use: that takes a tenth of a second a schema, which the start would wait for. */
export function createValidator<T>(schema: JsonSchema, blame: Blame = (path) => path): Validator<T> {
  let shape: ValidateFunction | undefined
  let rules: ValidateFunction | undefined
  return {
    schema,
    shape(body) {
      if (typeof body !== 'object' || body === null || Array.isArray(body)) {
        throw invalidRequest('The request body must be a JSON object.')
      }
      check((shape ??= ajv.compile(shapeOf(schema))), body, blame)
    },
    rules: (body) => check((rules ??= ajv.compile(schema)), body as object, blame),
  }
}

function check(validate: ValidateFunction, body: object, blame: Blame): void {
  if (validate(withDoubles(body))) return
  // Of alternatives that all fail, what joins them says more than the first.
  const errors = validate.errors ?? []
  const error = errors.find(({ keyword }) => keyword === 'anyOf') ?? errors[0]
  if (error) throw toRequestError(error, blame)
}

/** Whole numbers past 2^53 come as `bigint`, a type that JSON Schema does not know; to a range check a double will do. */
function withDoubles(body: object): object {
  const big = Object.entries(body).filter(([, value]) => typeof value === 'bigint')
  return big.length === 0 ? body : { ...body, ...Object.fromEntries(big.map(([name, value]) => [name, Number(value)])) }
}

function toRequestError(error: ErrorObject, blame: Blame): ApiError {
  const path = error.instancePath.split('/').slice(1).map(unescapePointer)
  if (error.keyword === 'required') path.push((error.params as { missingProperty: string }).missingProperty)
  const field = fieldName(path)
  return invalidRequest(
    `${field} ${describe(error)}`,
    fieldName(blame(error.keyword === 'false schema' ? path.slice(0, -1) : path)),
  )
}

function unescapePointer(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~')
}

/** `messages[0].content` from the parts of a JSON pointer. */
export function fieldName(path: readonly string[]): string {
  return path.map((part, at) => (/^\d+$/.test(part) ? `[${part}]` : at === 0 ? part : `.${part}`)).join('')
}

const typeNames: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
}

function describe({ keyword, params, schema, parentSchema, data }: ErrorObject): string {
  const parent = (parentSchema ?? {}) as JsonSchema
  if (typeof parent['x-error'] === 'string') return parent['x-error']
  switch (keyword) {
    case 'type': {
      const types = [schema as string | string[]].flat().filter((type) => type !== 'null')
      return `must be ${types.map((type) => typeNames[type] ?? type).join(' or ')}`
    }
    case 'required':
      return 'is missing'
    case 'const':
      return `must be ${JSON.stringify(schema)}`
    case 'enum': {
      const values = (schema as unknown[]).filter((value) => value !== null)
      if (values.length === 1) return `must be ${JSON.stringify(values[0])}`
      return `must be one of ${values.map((value) => JSON.stringify(value)).join(', ')}, not ${shorten(data)}`
    }
    case 'minimum':
      return `must be at least ${String(schema)}`
    case 'maximum':
      return `must be at most ${String(schema)}`
    case 'exclusiveMinimum':
      return `must be greater than ${String(schema)}`
    case 'minItems':
    case 'minLength':
      return 'must not be empty'
    case 'maxItems':
      return `must have at most ${String(schema)} entries`
    case 'maxLength':
      return `must have at most ${String(schema)} characters`
    case 'false schema':
      return 'is not allowed here'
    default:
      return `is not valid (${keyword} ${JSON.stringify(params)})`
  }
}

function shorten(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing'
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}
