import { once } from 'node:events'
import type { Response } from 'express'
import type { ApiError } from '../openai/errors.js'
import { DONE_EVENT, EVENT_STREAM_HEADERS, formatEvent, KEEP_ALIVE_COMMENT } from '../openai/sse.js'

/** Timing of an {@link EventStream}, in milliseconds. */
export interface EventStreamTiming {
  /** Silence after which a comment is sent. */
  readonly keepAliveMs: number
  /** How long a reader may take nothing while there is something for it. */
  readonly sendTimeoutMs: number
}

/**
 * Writes server-sent events. Until the first byte the answer may still become an ordinary error; a comment after some
 * silence counts as a byte.
 */
export class EventStream {
  readonly #response: Response
  readonly #timing: EventStreamTiming
  readonly #signal: AbortSignal
  #keepAlive: NodeJS.Timeout

  /** `signal` must abort when the connection closes. */
  constructor(response: Response, signal: AbortSignal, timing: EventStreamTiming) {
    this.#response = response
    this.#signal = signal
    this.#timing = timing
    this.#keepAlive = setInterval(() => this.#comment(), timing.keepAliveMs)
  }

  /** Whether the status line has gone out. */
  get opened(): boolean {
    return this.#response.headersSent
  }

  /** Sends the headers, if they have not gone yet. */
  open(): void {
    if (this.opened) return
    this.#response.status(200).set(EVENT_STREAM_HEADERS)
    this.#response.flushHeaders()
  }

  /** Sends one event; resolves when the reader can take more. Rejects with the signal's reason when it is gone. */
  async send(value: object): Promise<void> {
    this.open()
    this.#keepAlive.refresh()
    if (!this.#response.write(formatEvent(value))) await this.#drained()
    this.#signal.throwIfAborted()
  }

  /** Ends a stream that went well. */
  end(): void {
    this.stop()
    this.open()
    this.#response.end(DONE_EVENT)
  }

  /** Ends a stream with an error inside it. */
  fail(error: ApiError): void {
    this.stop()
    this.#response.end(formatEvent(error.body()) + DONE_EVENT)
  }

  /** Stops the comments. */
  stop(): void {
    clearInterval(this.#keepAlive)
  }

  #comment(): void {
    this.open()
    if (!this.#response.writableNeedDrain) this.#response.write(KEEP_ALIVE_COMMENT)
  }

  /** Waits until everything written was taken. Node's socket timer is restarted by every byte taken; at its end the socket closes. */
  async #drained(): Promise<void> {
    const { socket } = this.#response
    socket?.setTimeout(this.#timing.sendTimeoutMs)
    try {
      await once(this.#response, 'drain', { signal: this.#signal })
    } finally {
      socket?.setTimeout(0)
    }
  }
}
