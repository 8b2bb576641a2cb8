import type { ErrorForm } from '../errors.js'
import { object, text, type Examples, type JsonSchema } from '../json-schema.js'
import type { ErrorBody } from './types.js'

/** Body of every other error. */
const errorSchema: JsonSchema = object('An error in the OpenAI shape.', {
  error: object('What went wrong.', {
    message: text('For people; names the field, what was expected, and what to do.'),
    type: { enum: ['invalid_request_error', 'server_error'], description: 'Whose mistake it is.' },
    param: { type: ['string', 'null'], description: 'The field at fault, for example messages[2].' },
    code: { type: ['string', 'null'], description: 'A word that programs can branch on.' },
  }),
})

function error(
  message: string,
  code: string | null,
  param: string | null = null,
  type = 'invalid_request_error',
): Examples[string] {
  return { summary: code ?? type, value: { error: { message, type, param, code } } }
}

/** Error answers by status, each under its code. */
const errorExamples: Readonly<Record<string, Examples>> = {
  '400': {
    invalid: error('n must be 1', null, 'n'),
    context_length_exceeded: error(
      'The prompt has 70000 tokens; at most 65536 are accepted. Shorten it or start a new conversation.',
      'context_length_exceeded',
      'messages',
    ),
  },
  '401': { invalid_api_key: error('The API key is wrong.', 'invalid_api_key') },
  '403': {
    host_not_allowed: error(
      'This server answers to loopback names only. Set an API key to open it.',
      'host_not_allowed',
    ),
    origin_not_allowed: error(
      'Pages of this origin may not call this server (MAPLE_ALLOWED_ORIGINS).',
      'origin_not_allowed',
    ),
  },
  '404': {
    unknown_url: error('Unknown request URL: GET /v1/engines', 'unknown_url'),
    model_not_found: error('The model "gpt-4" does not exist here.', 'model_not_found', 'model'),
  },
  '405': { method_not_allowed: error('GET is not allowed here; allowed: POST, OPTIONS', 'method_not_allowed') },
  '413': { request_too_large: error('The request body is larger than 16777216 bytes.', 'request_too_large') },
  '415': {
    unsupported_media_type: error('The charset "koi8-r" is not supported; send UTF-8.', 'unsupported_media_type'),
  },
  '500': { server_error: error('Generation failed inside the model.', null, null, 'server_error') },
  '503': {
    model_loading: error(
      'The model is still loading. /health shows how far it is.',
      'model_loading',
      null,
      'server_error',
    ),
    model_load_failed: error(
      'The model could not be loaded. /health says why.',
      'model_load_failed',
      null,
      'server_error',
    ),
    engine_overloaded: error(
      'The server is busy, with 16 waiting already. Try again later.',
      'engine_overloaded',
      null,
      'server_error',
    ),
    shutting_down: error('The server is shutting down.', 'shutting_down', null, 'server_error'),
  },
}

/** `{"error": {"message", "type", "param", "code"}}`: the form of all paths that belong to no other protocol. */
export const openAiErrors: ErrorForm = {
  name: 'Error',
  schema: errorSchema,
  examples: errorExamples,
  render({ status, headers, message, type, param = null, code = null }) {
    const body: ErrorBody = { error: { message, type, param, code } }
    return { status, headers, body }
  },
}
