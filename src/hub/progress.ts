import type { DownloadProgress } from './types.js'

const intervalMs = 100

/** Adds up the bytes of all files and reports the sum, not too often. */
export class DownloadMeter {
  readonly #report: ((progress: DownloadProgress) => void) | undefined
  readonly #files = new Map<string, { loaded: number; total: number }>()
  #last = -Infinity
  #started = false

  constructor(report: ((progress: DownloadProgress) => void) | undefined) {
    this.#report = report
  }

  add(name: string, loaded: number, total: number): void {
    this.#files.set(name, { loaded, total })
  }

  /** All files are known now: reports begin, if anything is still to come. */
  start(): void {
    this.#started = [...this.#files.values()].some((file) => file.loaded < file.total)
  }

  set(name: string, loaded: number): void {
    const file = this.#files.get(name)
    if (file === undefined) return
    file.loaded = Math.min(loaded, file.total)
    const now = performance.now()
    if (this.#started && now - this.#last >= intervalMs) this.#send(now)
  }

  /** Bytes of some of the files. */
  total(names: readonly string[]): number {
    return names.reduce((sum, name) => sum + (this.#files.get(name)?.total ?? 0), 0)
  }

  finish(): void {
    if (this.#started) this.#send(performance.now())
  }

  #send(now: number): void {
    this.#last = now
    let loadedBytes = 0
    let totalBytes = 0
    for (const file of this.#files.values()) {
      loadedBytes += file.loaded
      totalBytes += file.total
    }
    try {
      this.#report?.({ phase: 'download', loadedBytes, totalBytes })
    } catch {
      // A listener's own fault must not cost the download.
    }
  }
}
