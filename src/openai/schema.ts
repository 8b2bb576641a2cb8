import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { invalidRequest, type ApiError } from './errors.js'
import {
  chatRequestSchema,
  completionRequestSchema,
  type ChatBody,
  type CompletionBody,
  type JsonSchema,
} from './schemas.js'

/**
 * Validation in two steps, because a wrong type is reported before the model is looked at, and a wrong value after:
 * `shape` knows types and required fields, `rules` the whole schema.
 */
interface Validator<T> {
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

/** Compiles at the first use: that takes a tenth of a second a schema, which the start would wait for. */
function createValidator<T>(schema: JsonSchema): Validator<T> {
  let shape: ValidateFunction | undefined
  let rules: ValidateFunction | undefined
  return {
    shape(body) {
      if (typeof body !== 'object' || body === null || Array.isArray(body)) {
        throw invalidRequest('The request body must be a JSON object.')
      }
      check((shape ??= ajv.compile(shapeOf(schema))), body)
    },
    rules: (body) => check((rules ??= ajv.compile(schema)), body as object),
  }
}

export const chatValidator: Validator<ChatBody> = createValidator(chatRequestSchema)
export const completionValidator: Validator<CompletionBody> = createValidator(completionRequestSchema)

function check(validate: ValidateFunction, body: object): void {
  if (validate(withDoubles(body))) return
  // Of alternatives that all fail, what joins them says more than the first.
  const errors = validate.errors ?? []
  const error = errors.find(({ keyword }) => keyword === 'anyOf') ?? errors[0]
  if (error) throw toRequestError(error)
}

/** Whole numbers past 2^53 come as `bigint`, a type that JSON Schema does not know; to a range check a double will do. */
function withDoubles(body: object): object {
  const big = Object.entries(body).filter(([, value]) => typeof value === 'bigint')
  return big.length === 0 ? body : { ...body, ...Object.fromEntries(big.map(([name, value]) => [name, Number(value)])) }
}

function toRequestError(error: ErrorObject): ApiError {
  const path = error.instancePath.split('/').slice(1).map(unescapePointer)
  if (error.keyword === 'required') path.push((error.params as { missingProperty: string }).missingProperty)
  const field = fieldName(path)
  return invalidRequest(`${field} ${describe(error)}`, paramOf(path, error))
}

function unescapePointer(part: string): string {
  return part.replaceAll('~1', '/').replaceAll('~0', '~')
}

/** `messages[0].content` from the parts of a JSON pointer. */
function fieldName(path: readonly string[]): string {
  return path.map((part, at) => (/^\d+$/.test(part) ? `[${part}]` : at === 0 ? part : `.${part}`)).join('')
}

/** The field that a client is told: a tool as a whole, a message as a whole where its role or a part is wrong. */
function paramOf(path: readonly string[], error: ErrorObject): string {
  const [root, index, field, ...below] = path
  if (root === undefined) return ''
  if (root === 'tools' && index !== undefined) return fieldName([root, index])
  if (root === 'messages' && index !== undefined) {
    if (field === 'role' || (field === 'content' && below.length > 0)) return fieldName([root, index])
  }
  if (root === 'tool_choice' || root === 'response_format' || root === 'stop' || root === 'prompt') return root
  return fieldName(error.keyword === 'false schema' ? path.slice(0, -1) : path)
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
