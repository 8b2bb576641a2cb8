import { formatBytes, formatDuration } from './format.js'

/** Where progress is shown: a terminal or a pipe. */
export interface ProgressStream {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

/** A point on the way, as loading reports it. */
export interface ProgressEvent {
  readonly phase: string
  readonly loadedBytes: number
  readonly totalBytes: number
}

/** Rates are measured over this much of the past. */
const windowMs = 10_000
const redrawMs = 100
/** In a pipe, a line is written after so much time. */
const lineMs = 10_000

/** Shows how far a load is: one line redrawn in place on a terminal, a plain line now and then elsewhere. */
export class ProgressDisplay {
  readonly #stream: ProgressStream
  readonly #inPlace: boolean
  readonly #now: () => number
  #phase: { name: string; startedAt: number; startBytes: number; last: ProgressEvent } | undefined
  #samples: { at: number; bytes: number }[] = []
  #shownAt = -Infinity
  #drawn = false

  /** @param now milliseconds of a clock that only moves forward */
  constructor(stream: ProgressStream, options: { dumb?: boolean; now?: () => number } = {}) {
    this.#stream = stream
    this.#inPlace = stream.isTTY === true && options.dumb !== true
    this.#now = options.now ?? (() => performance.now())
  }

  /** Takes the next report. A new phase ends the one before. */
  update(event: ProgressEvent): void {
    const now = this.#now()
    if (this.#phase?.name !== event.phase) {
      this.#endPhase(now)
      this.#phase = { name: event.phase, startedAt: now, startBytes: event.loadedBytes, last: event }
      this.#samples = []
      this.#shownAt = this.#inPlace ? -Infinity : now - lineMs / 2
    }
    const phase = this.#phase
    if (phase === undefined) return
    phase.last = event
    // A file fetched again from its start takes bytes back.
    if (this.#samples.some((sample) => sample.bytes > event.loadedBytes)) this.#samples = []
    this.#samples.push({ at: now, bytes: event.loadedBytes })
    while (this.#samples.length > 2 && (this.#samples[0]?.at ?? 0) < now - windowMs) this.#samples.shift()
    if (now - this.#shownAt < (this.#inPlace ? redrawMs : lineMs)) return
    this.#shownAt = now
    if (this.#inPlace) this.#draw(this.#bar(event))
    else this.#stream.write(`${event.phase}: ${this.#facts(event)}\n`)
  }

  /** Writes a line of its own, above the bar where there is one. */
  log(message: string): void {
    this.#erase()
    this.#stream.write(`${message}\n`)
    this.#shownAt = this.#inPlace ? -Infinity : this.#shownAt
  }

  /** Ends the display, leaving one line for the last phase. */
  finish(): void {
    this.#endPhase(this.#now())
  }

  /** Ends the display without a word, after a failure that is told elsewhere. */
  stop(): void {
    this.#erase()
    this.#phase = undefined
  }

  #endPhase(now: number): void {
    const phase = this.#phase
    this.#erase()
    this.#phase = undefined
    if (phase === undefined || phase.last.totalBytes === 0) return
    const time = formatDuration((now - phase.startedAt) / 1000)
    // A phase that passed in a blink needs no line.
    if (now - phase.startedAt >= 1000)
      this.#stream.write(`${phase.name}: ${formatBytes(phase.last.totalBytes)} in ${time}\n`)
  }

  #bar(event: ProgressEvent): string {
    const facts = this.#facts(event)
    const columns = Math.max(20, this.#stream.columns ?? 80)
    const room = Math.min(40, columns - event.phase.length - facts.length - 6)
    if (room < 5) return `${event.phase} ${facts}`.slice(0, columns - 1)
    const full = Math.round(room * share(event))
    return `${event.phase} [${'#'.repeat(full)}${'-'.repeat(room - full)}] ${facts}`
  }

  #facts(event: ProgressEvent): string {
    const { loadedBytes, totalBytes } = event
    const parts = [`${Math.floor(share(event) * 100)} %`, `${formatBytes(loadedBytes)} of ${formatBytes(totalBytes)}`]
    const first = this.#samples[0]
    const last = this.#samples.at(-1)
    if (first !== undefined && last !== undefined && last.at - first.at >= 500) {
      const rate = (1000 * (last.bytes - first.bytes)) / (last.at - first.at)
      parts.push(`${formatBytes(rate)}/s`)
      if (rate > 0) parts.push(`${formatDuration((totalBytes - loadedBytes) / rate)} left`)
    }
    return parts.join(', ')
  }

  #draw(line: string): void {
    this.#stream.write(`\r${line}\x1b[K`)
    this.#drawn = true
  }

  #erase(): void {
    if (this.#drawn) this.#stream.write('\r\x1b[K')
    this.#drawn = false
  }
}

function share({ loadedBytes, totalBytes }: ProgressEvent): number {
  return totalBytes > 0 ? Math.min(1, Math.max(0, loadedBytes / totalBytes)) : 0
}
