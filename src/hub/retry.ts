import { setTimeout as delay } from 'node:timers/promises'
import type { HubError } from '../errors.js'

/** A fault that may pass by itself: worth another try, and `error` if all of them fail. */
export class TransientFault extends Error {
  readonly error: HubError
  /** How long the other side asks to be left alone, in milliseconds. */
  readonly waitMs: number
  /** Whether enough was gained before the fault for the count of tries to begin anew. */
  progressed = false

  constructor(error: HubError, waitMs = 0) {
    super(error.message)
    this.error = error
    this.waitMs = waitMs
  }
}

/** How often and how long to try again. */
export interface RetryPolicy {
  /** Tries after the first [5]. */
  readonly retries: number
  /** Pause before the first retry, in milliseconds; doubled each time. */
  readonly pauseMs: number
  readonly signal: AbortSignal | undefined
  /** Told of waits that the other side asked for. */
  readonly onWait: (message: string) => void
}

/** Runs `attempt` until it returns, throws something lasting, or has failed once and `retries` times more in a row. */
export async function withRetries<T>(policy: RetryPolicy, attempt: () => Promise<T>): Promise<T> {
  for (let failures = 0; ;) {
    try {
      return await attempt()
    } catch (fault) {
      policy.signal?.throwIfAborted()
      if (!(fault instanceof TransientFault)) throw fault
      failures = fault.progressed ? 1 : failures + 1
      if (failures > policy.retries) throw fault.error
      // Spread out, so that many processes cut off together do not come back together.
      const pause = policy.pauseMs * 2 ** (failures - 1) * (0.75 + Math.random() / 2)
      if (fault.waitMs > 0)
        policy.onWait(`${fault.error.message} Waiting ${Math.ceil(fault.waitMs / 1000)} s, as it asks.`)
      await delay(
        Math.max(pause, fault.waitMs),
        undefined,
        policy.signal === undefined ? {} : { signal: policy.signal },
      ).catch((error: unknown) => {
        policy.signal?.throwIfAborted()
        throw error
      })
    }
  }
}
