import { type ErrorCode, MapleError } from '../errors.js'

/** What the process's exit code says; scripts may rely on these numbers. */
export const exitCodes = {
  done: 0,
  /** Something failed that fits no other number. */
  failed: 1,
  /** A flag, a setting or an argument is wrong. */
  usage: 2,
  /** The model cannot be had, or is broken. */
  model: 3,
  /** This machine lacks memory, disk or permission. */
  machine: 4,
  /** A running server could not be reached, or refused. */
  server: 5,
  /** Ctrl-C, as shells count it. */
  interrupted: 130,
} as const

/** One of {@link exitCodes}. */
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** For the end of `--help`. */
export const exitCodeHelp =
  'Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the model cannot be had or is broken, 4 this machine lacks memory, disk or permission, 5 the server cannot be reached or refuses, 130 interrupted.'

/** A failure that already knows its exit code. */
export class CliError extends Error {
  readonly exitCode: ExitCode

  constructor(message: string, exitCode: ExitCode, options?: ErrorOptions) {
    super(message, options)
    this.exitCode = exitCode
  }
}

/** The reason work is aborted with when the user interrupts it. */
export class Interrupted extends CliError {
  constructor() {
    super('Interrupted.', exitCodes.interrupted)
  }
}

/** The reason work is aborted with when nobody reads the output any more; not a failure. */
export class OutputClosed extends CliError {
  constructor() {
    super('Nobody reads the output.', exitCodes.done)
  }
}

const byCode: Partial<Record<ErrorCode, ExitCode>> = {
  INVALID_ARGUMENT: exitCodes.usage,
  INVALID_REQUEST: exitCodes.usage,
  CONTEXT_LENGTH_EXCEEDED: exitCodes.usage,
  MODEL_NOT_FOUND: exitCodes.model,
  UNSUPPORTED_MODEL: exitCodes.model,
  INVALID_CHECKPOINT: exitCodes.model,
  INVALID_TOKENIZER: exitCodes.model,
  TOKENIZER_MISSING: exitCodes.model,
  NUMBERS_OVERFLOWED: exitCodes.model,
  HUB_UNREACHABLE: exitCodes.model,
  HUB_AUTH: exitCodes.model,
  HUB_GATED: exitCodes.model,
  HUB_NOT_FOUND: exitCodes.model,
  HUB_BAD_RESPONSE: exitCodes.model,
  OFFLINE: exitCodes.model,
  DISK_FULL: exitCodes.machine,
  CACHE_NOT_WRITABLE: exitCodes.machine,
  WRITE_FAILED: exitCodes.machine,
  OUT_OF_MEMORY: exitCodes.machine,
  CANCELLED: exitCodes.interrupted,
}

/** The exit code that tells scripts what went wrong. */
export function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CliError) return error.exitCode
  return (error instanceof MapleError ? byCode[error.code] : undefined) ?? exitCodes.failed
}

/** One line for people, with the code to look up; a stack only for what should never happen. */
export function describeError(error: unknown): string {
  if (error instanceof MapleError) return `${error.message} [${error.code}]`
  if (error instanceof CliError) return error.message
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
