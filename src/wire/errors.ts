import { MapleError } from '../errors.js'
import type { Examples, JsonSchema } from './json-schema.js'

/** Whose mistake an error is. */
export type ErrorType = 'invalid_request_error' | 'server_error'

/** What the HTTP layer needs to know of an error beside its message. */
export interface ApiErrorOptions extends ErrorOptions {
  readonly type?: ErrorType
  /** The request field at fault, for example `messages[2]`. */
  readonly param?: string | undefined
  readonly code?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
}

/** An error with its HTTP status. How it looks on the wire is for the protocol's {@link ErrorForm} to say. */
export class ApiError extends Error {
  readonly status: number
  readonly type: ErrorType
  readonly param: string | undefined
  readonly code: string | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, message: string, options: ApiErrorOptions = {}) {
    super(message, options)
    this.name = 'ApiError'
    this.status = status
    this.type = options.type ?? (status < 500 ? 'invalid_request_error' : 'server_error')
    this.param = options.param
    this.code = options.code
    this.headers = options.headers ?? {}
  }
}

/** Seconds after which a client that was turned away may try again. */
const RETRY_AFTER = { 'Retry-After': '5' }

/** A field of the request is missing, mistyped or out of range. */
export function invalidRequest(message: string, param?: string, options: ApiErrorOptions = {}): ApiError {
  return new ApiError(400, message, { ...options, param })
}

/** Text of a request inside a message: quoted, and never the whole of something huge. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text)
}

/** 404: the request names a model that is not served here. */
export function modelNotFound(model: string): ApiError {
  return new ApiError(404, `The model ${quote(model)} does not exist here.`, {
    param: 'model',
    code: 'model_not_found',
  })
}

/** 400: the prompt has `length` tokens and only `limit` fit. */
export function promptTooLong(length: number, limit: number, param: string): ApiError {
  return invalidRequest(
    `The prompt has ${length} tokens; at most ${limit} are accepted. Shorten it or start a new conversation.`,
    param,
    { code: 'context_length_exceeded' },
  )
}

/** 400: so many messages that they need not be rendered to know. */
export function tooManyMessages(count: number, limit: number, param: string): ApiError {
  return invalidRequest(
    `The conversation's ${count} messages take more than the ${limit} tokens that are accepted. Start a new conversation.`,
    param,
    { code: 'context_length_exceeded' },
  )
}

/** 503: the weights are not there yet. */
export function modelLoading(): ApiError {
  return new ApiError(503, 'The model is still loading. /health shows how far it is.', { code: 'model_loading' })
}

/** 503: the weights could not be loaded; the operator finds the reason in the log and at `/health`. */
export function modelFailed(cause: unknown): ApiError {
  return new ApiError(503, 'The model could not be loaded. /health says why.', { code: 'model_load_failed', cause })
}

/** 503: the server finishes what runs and takes no more. */
export function shuttingDown(): ApiError {
  return new ApiError(503, 'The server is shutting down.', { code: 'shutting_down', headers: RETRY_AFTER })
}

/**
 * Any thrown value as an API error. Mistakes of the client keep their message; what broke inside keeps its message to
 * itself (the log has it), because it may name files of this machine.
 */
export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (error instanceof MapleError) {
    const { message, param } = error
    switch (error.code) {
      case 'INVALID_REQUEST':
      case 'INVALID_ARGUMENT':
        return invalidRequest(message, param, { cause: error })
      case 'CONTEXT_LENGTH_EXCEEDED':
        return invalidRequest(message, param, { code: 'context_length_exceeded', cause: error })
      case 'ENGINE_OVERLOADED':
        return new ApiError(503, message, { code: 'engine_overloaded', headers: RETRY_AFTER, cause: error })
      case 'TOKENIZER_MISSING':
        return new ApiError(500, 'The served model has no tokenizer, so it cannot read text.', { cause: error })
      default:
        return generationFailed(error)
    }
  }
  return new ApiError(500, 'The server failed while it answered this request.', { cause: error })
}

/** 500: the model broke down under this request. */
export function generationFailed(cause: unknown): ApiError {
  // The checkpoint's fault; the message names a layer and nothing of this machine.
  if (cause instanceof MapleError && cause.code === 'NUMBERS_OVERFLOWED') {
    return new ApiError(500, cause.message, { code: 'numbers_overflowed', cause })
  }
  return new ApiError(500, 'Generation failed inside the model.', { cause })
}

/** An error as it goes out. */
export interface RenderedError {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: object
}

/** How a protocol words errors, those before its handlers run included. */
export interface ErrorForm {
  /** Name of the schema in the API document. */
  readonly name: string
  readonly schema: JsonSchema
  /** Examples by status. */
  readonly examples: Readonly<Record<string, Examples>>
  render(error: ApiError, requestId: string): RenderedError
}
