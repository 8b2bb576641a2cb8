import { createError } from '../errors.js'

/** Limits of a {@link RequestQueue}. */
export interface QueueLimits {
  /** Requests that may run at once [1]. */
  readonly slots?: number
  /** Requests that may wait; 0 means that nobody waits. */
  readonly maxDepth: number
  /** Milliseconds a request may wait; 0 means that nobody waits. */
  readonly timeoutMs: number
}

/** The right to run. Give it back exactly when the work is over; giving it back twice does no harm. */
export interface Slot {
  release(): void
}

interface Waiter {
  readonly isCommitted: () => boolean
  grant(): void
  fail(error: unknown): void
}

/** First in, first out: a few run, some wait, the rest is turned away. */
export class RequestQueue {
  readonly #slots: number
  readonly #maxDepth: number
  readonly #timeoutMs: number
  readonly #waiting = new Set<Waiter>()
  #active = 0
  #closed: Error | undefined
  #whenIdle: (() => void)[] = []

  constructor({ slots = 1, maxDepth, timeoutMs }: QueueLimits) {
    this.#slots = slots
    this.#maxDepth = maxDepth
    this.#timeoutMs = timeoutMs
  }

  /** Requests that hold a slot. */
  get active(): number {
    return this.#active
  }

  /** Requests that wait for a slot. */
  get depth(): number {
    return this.#waiting.size
  }

  /**
   * Waits for a slot. Rejects with `ENGINE_OVERLOADED` when the queue is full or the wait took too long, with the
   * signal's reason when it aborts, and with the error given to {@link close} from then on: unless `isCommitted` then says
   * that whoever waits can go nowhere else any more.
   */
  acquire(signal?: AbortSignal, isCommitted: () => boolean = () => false): Promise<Slot> {
    return new Promise((resolve, reject: (reason: unknown) => void) => {
      if (signal?.aborted) return reject(signal.reason)
      if (this.#closed) return reject(this.#closed)
      if (this.#active < this.#slots) return resolve(this.#grant())
      if (this.#waiting.size >= this.#maxDepth || this.#timeoutMs === 0) {
        return reject(
          createError(
            'ENGINE_OVERLOADED',
            `The server is busy, with ${this.#waiting.size} waiting already. Try again later.`,
          ),
        )
      }

      const settle = (): void => {
        this.#waiting.delete(waiter)
        clearTimeout(timer)
        signal?.removeEventListener('abort', onAbort)
      }
      const waiter: Waiter = {
        isCommitted,
        grant: () => {
          settle()
          resolve(this.#grant())
        },
        fail: (error) => {
          settle()
          reject(error)
        },
      }
      const onAbort = (): void => waiter.fail(signal?.reason)
      const timer = setTimeout(() => {
        const waited = this.#timeoutMs / 1000
        waiter.fail(
          createError(
            'ENGINE_OVERLOADED',
            `The request waited ${waited} s for its turn and was given up. Try again later.`,
          ),
        )
      }, this.#timeoutMs)
      signal?.addEventListener('abort', onAbort)
      this.#waiting.add(waiter)
    })
  }

  /** Turns everybody away who comes later, or waits and can still go elsewhere; the others go on. */
  close(error: Error): void {
    this.#closed ??= error
    for (const waiter of [...this.#waiting]) if (!waiter.isCommitted()) waiter.fail(error)
  }

  /** Resolves when nobody runs (and so nobody waits). */
  idle(): Promise<void> {
    if (this.#active === 0) return Promise.resolve()
    return new Promise((resolve) => this.#whenIdle.push(resolve))
  }

  #grant(): Slot {
    this.#active++
    let held = true
    return {
      release: () => {
        if (!held) return
        held = false
        this.#active--
        const [next] = this.#waiting
        if (next) next.grant()
        else if (this.#active === 0) for (const done of this.#whenIdle.splice(0)) done()
      },
    }
  }
}
