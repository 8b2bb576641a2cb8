/** Every code an error of this package can carry. Codes are stable; messages are for people and may change. */
export const errorCodes = [
  'MODEL_NOT_FOUND',
  'UNSUPPORTED_MODEL',
  'INVALID_CHECKPOINT',
  'INVALID_TOKENIZER',
  'TOKENIZER_MISSING',
  'INVALID_ARGUMENT',
  'INVALID_REQUEST',
  'CONTEXT_LENGTH_EXCEEDED',
  'DISPOSED',
  'ENGINE_FAILED',
  'NUMBERS_OVERFLOWED',
  'ENGINE_OVERLOADED',
  'OUT_OF_MEMORY',
  'CANCELLED',
  'DISK_FULL',
  'CACHE_NOT_WRITABLE',
  'IO',
  'READ_FAILED',
  'WRITE_FAILED',
  'OFFLINE',
  'HUB_UNREACHABLE',
  'HUB_AUTH',
  'HUB_GATED',
  'HUB_NOT_FOUND',
  'HUB_BAD_RESPONSE',
  'NATIVE_MISSING',
  'NATIVE_MISMATCH',
] as const

/** One of {@link errorCodes}. */
export type ErrorCode = (typeof errorCodes)[number]

/** What an error may carry beside its code and message. */
export interface MapleErrorOptions extends ErrorOptions {
  /** The argument or request field at fault, for example `temperature` or `messages[2].content`. */
  param?: string | undefined
}

/** The base of all errors this package throws. Branch on {@link MapleError.code} or on the subclass. */
export class MapleError extends Error {
  readonly code: ErrorCode
  /** The argument or request field at fault, where there is one. */
  readonly param: string | undefined

  constructor(code: ErrorCode, message: string, options: MapleErrorOptions = {}) {
    super(message, options)
    this.name = new.target.name
    this.code = code
    this.param = options.param
  }
}

/** The checkpoint cannot be used: missing, of another architecture, or broken in its weights or its text files. */
export class ModelError extends MapleError {}

/** An argument or a request field has the wrong type or value; `param` names it. */
export class InvalidArgumentError extends MapleError {}

/** The prompt does not fit the context. */
export class ContextLengthError extends MapleError {}

/** The model was disposed before or during the call. */
export class DisposedError extends MapleError {}

/** The engine broke down (or was handed too much work); what it was doing is lost. */
export class EngineError extends MapleError {}

/** A disk or a cache folder refused: full, read-only, unreadable. */
export class StorageError extends MapleError {}

/** The model hub refused, was out of reach, or answered nonsense. */
export class HubError extends MapleError {}

/** The native addon is missing for this platform, or belongs to another version of the package. */
export class NativeAddonError extends MapleError {}

const classes: Record<ErrorCode, typeof MapleError> = {
  MODEL_NOT_FOUND: ModelError,
  UNSUPPORTED_MODEL: ModelError,
  INVALID_CHECKPOINT: ModelError,
  INVALID_TOKENIZER: ModelError,
  TOKENIZER_MISSING: ModelError,
  INVALID_ARGUMENT: InvalidArgumentError,
  INVALID_REQUEST: InvalidArgumentError,
  CONTEXT_LENGTH_EXCEEDED: ContextLengthError,
  DISPOSED: DisposedError,
  ENGINE_FAILED: EngineError,
  NUMBERS_OVERFLOWED: EngineError,
  ENGINE_OVERLOADED: EngineError,
  OUT_OF_MEMORY: EngineError,
  CANCELLED: MapleError,
  DISK_FULL: StorageError,
  CACHE_NOT_WRITABLE: StorageError,
  IO: StorageError,
  READ_FAILED: StorageError,
  WRITE_FAILED: StorageError,
  OFFLINE: HubError,
  HUB_UNREACHABLE: HubError,
  HUB_AUTH: HubError,
  HUB_GATED: HubError,
  HUB_NOT_FOUND: HubError,
  HUB_BAD_RESPONSE: HubError,
  NATIVE_MISSING: NativeAddonError,
  NATIVE_MISMATCH: NativeAddonError,
}

/** The error of the class that belongs to `code`. */
export function createError(code: ErrorCode, message: string, options?: MapleErrorOptions): MapleError {
  return new classes[code](code, message, options)
}

/** Whether a value is one of {@link errorCodes}. */
export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(classes, value)
}
