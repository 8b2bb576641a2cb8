/** A JSON Schema (2020-12, the dialect of OpenAPI 3.1). */
export type JsonSchema = Readonly<Record<string, unknown>>

/** Null stands for an absent field wherever a field is optional. Descriptions and examples go into the API document. */
export function optional(
  type: string | readonly string[],
  description: string,
  examples: readonly unknown[],
  more: JsonSchema = {},
): JsonSchema {
  return { type: [type, 'null'].flat(), description, examples, ...more }
}

/** A field of which only what changes nothing is accepted. */
export function unsupported(type: string | readonly string[], value: unknown, reason = 'is not supported'): JsonSchema {
  const description = `Only ${JSON.stringify(value)} or null: ${reason}.`
  return optional(type, description, [value], { enum: [value, null], 'x-error': reason })
}

/** An object of which clients may rely on all properties but the optional ones; more may be added in time. */
export function object(
  description: string,
  properties: Record<string, JsonSchema>,
  optional: string[] = [],
): JsonSchema {
  const required = Object.keys(properties).filter((name) => !optional.includes(name))
  return { type: 'object', description, required, properties }
}

export function text(description: string, more: JsonSchema = {}): JsonSchema {
  return { type: 'string', description, ...more }
}

export function count(description: string): JsonSchema {
  return { type: 'integer', minimum: 0, description }
}

export function constant(value: unknown, description: string): JsonSchema {
  return { const: value, description }
}

/** An example in the API document; each request is sent to a server by the tests, and answered. */
export interface Example {
  readonly summary: string
  readonly value: unknown
}
/** Examples by name. */
export type Examples = Readonly<Record<string, Example>>

/** A token of a raw prompt. Which ids there are, the model says. */
export const tokenIdSchema: JsonSchema = { type: 'integer', description: 'Id of a token.', minimum: 0 }
