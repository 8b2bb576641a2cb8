import { once } from 'node:events'
import type { Response } from 'express'
import type { ChatEvent } from '../chat/types.js'
import type { StreamForm } from '../protocols/protocol.js'
import type { ApiError } from '../wire/errors.js'
import { EVENT_STREAM_HEADERS } from '../wire/sse.js'

/** Timing of an {@link EventStream}, in milliseconds. */
export interface EventStreamTiming {
  /** Silence after which a sign of life is sent. */
  readonly keepAliveMs: number
  /** How long a reader may take nothing while there is something for it. */
  readonly sendTimeoutMs: number
}

/**
 * Writes server-sent events in a protocol's form. Until the first byte the answer may still become an ordinary error; a
 * sign of life after some silence counts as a byte.
 */
export class EventStream {
  readonly #response: Response
  readonly #form: StreamForm
  readonly #timing: EventStreamTiming
  readonly #signal: AbortSignal
  #keepAlive: NodeJS.Timeout

  /** `signal` must abort when the connection closes. */
  constructor(response: Response, signal: AbortSignal, form: StreamForm, timing: EventStreamTiming) {
    this.#response = response
    this.#signal = signal
    this.#form = form
    this.#timing = timing
    this.#keepAlive = setInterval(() => this.#sign(), timing.keepAliveMs)
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

  /** Sends a whole answer. Rejects with the signal's reason when the reader is gone. */
  async run(events: AsyncIterable<ChatEvent>): Promise<void> {
    await this.#send(this.#form.start())
    let finished = false
    for await (const event of events) {
      await this.#send(this.#form.push(event))
      finished ||= event.type === 'finish'
    }
    if (!finished) throw new Error('the answer ended without a finish event')
    this.stop()
    this.#response.end(this.#form.end())
  }

  /** Sends frames, if there are any; resolves when the reader can take more. */
  async #send(frames: string): Promise<void> {
    this.open()
    if (frames === '') return
    this.#keepAlive.refresh()
    if (!this.#response.write(frames)) await this.#drained()
    this.#signal.throwIfAborted()
  }

  /** Ends a stream with an error inside it. */
  fail(error: ApiError): void {
    this.stop()
    this.#response.end(this.#form.fail(error))
  }

  /** Stops the signs of life. */
  stop(): void {
    clearInterval(this.#keepAlive)
  }

  #sign(): void {
    this.open()
    if (!this.#response.writableNeedDrain) this.#response.write(this.#form.keepAlive())
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
