import type { ApiError } from '../errors.js'
import type { JsonSchema } from '../json-schema.js'
import { formatEvent, KEEP_ALIVE_COMMENT } from '../sse.js'
import { openAiErrors } from './errors.js'

/** The last event of every stream. */
export const DONE_EVENT = 'data: [DONE]\n\n'

/** The ends of a stream, the same for all protocols that send bare `data:` lines and `[DONE]`. */
export const streamEnds = {
  end: (): string => DONE_EVENT,
  fail: (error: ApiError): string => formatEvent(openAiErrors.render(error, '').body) + DONE_EVENT,
  keepAlive: (): string => KEEP_ALIVE_COMMENT,
} as const

/** Schema of such a stream's frames; `chunk` is the name of the chunk's schema. */
export function framesSchema(chunk: string, schema: JsonSchema): JsonSchema {
  return {
    type: 'object',
    description:
      `Events of one line each: data: and a ${chunk} as JSON, with an empty line behind; the last is data: [DONE]. ` +
      'While a request waits, comment lines (: keep-alive) come now and then. What fails after the first byte is an ' +
      'event with an Error, then data: [DONE], without a finish_reason.',
    required: ['data'],
    properties: {
      data: {
        type: 'string',
        description: `A ${chunk}, an Error, or [DONE].`,
        if: { const: '[DONE]' },
        else: {
          contentMediaType: 'application/json',
          contentSchema: { anyOf: [schema, openAiErrors.schema] },
        },
      },
    },
  }
}
