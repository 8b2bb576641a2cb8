import type { Response } from 'express'
import type { ChatEvent, CompletionEvent } from '../chat/types.js'
import type { ApiError } from '../wire/errors.js'

/** Where an answer was when its reader left. */
export type AbortPhase = 'reading' | 'queue' | 'prefill' | 'decode' | 'sending'

/** Marks of a request's way, in milliseconds of the process's clock; absent where it did not come so far. */
export interface Marks {
  /** The request line and headers were read. */
  readonly arrived: number
  /** It stood in line for a slot. */
  queued?: number
  granted?: number
  firstToken?: number
  lastToken?: number
  /** The model was done. */
  finished?: number
}

/**
 * What is known of one request: filled in along its way, read once when it is over, by the log and the metrics. Holds
 * numbers and fixed words only, never what was asked or answered.
 */
export class RequestRecord {
  readonly marks: Marks = { arrived: performance.now() }
  promptTokens = 0
  cachedTokens = 0
  completionTokens = 0
  /** Absent where the model was not asked, or not done. */
  finishReason: 'stop' | 'length' | 'tool_calls' | undefined
  /** `code` of the error that was answered, in a stream too; its type where it has no code. */
  errorCode: string | undefined

  constructor(
    readonly id: string,
    readonly method: string,
    /** One of the route table's names, or `other`. */
    readonly route: string,
  ) {}

  /** One more token has been generated. */
  readonly onToken = ({ cachedTokens }: { readonly cachedTokens: number }): void => {
    const now = performance.now()
    this.marks.firstToken ??= now
    this.marks.lastToken = now
    this.completionTokens++
    this.cachedTokens = cachedTokens
  }

  /** The events of an answer as they are; its end is noted. */
  async *watch<E extends ChatEvent | CompletionEvent>(events: AsyncIterable<E>): AsyncGenerator<E, void, undefined> {
    for await (const event of events) {
      if (event.type === 'finish') {
        this.finishReason = event.reason
        this.completionTokens = event.usage.completionTokens
        this.cachedTokens = event.usage.cachedTokens
        this.marks.finished = performance.now()
      }
      yield event
    }
  }

  /** An error was answered. */
  fail(error: ApiError): void {
    this.errorCode = error.code ?? error.type
  }

  /** How far it had come. */
  get phase(): AbortPhase {
    const { queued, granted, firstToken, finished } = this.marks
    if (finished !== undefined) return 'sending'
    if (firstToken !== undefined) return 'decode'
    if (granted !== undefined) return 'prefill'
    return queued === undefined ? 'reading' : 'queue'
  }
}

/** The record of a request, which the first middleware made. */
export function recordOf(res: Response): RequestRecord {
  return res.locals['record'] as RequestRecord
}
