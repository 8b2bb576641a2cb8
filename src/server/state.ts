import type { Config } from '../config.js'
import { RequestQueue } from '../engine/queue.js'
import { modelFailed, modelLoading, shuttingDown } from '../wire/errors.js'
import type { Logger } from './logger.js'
import type { ServedModel } from './model.js'

/** How far a load is, in bytes. */
export interface LoadProgress {
  readonly phase: 'download' | 'convert' | 'load'
  readonly loadedBytes: number
  readonly totalBytes: number
}

/** Where the model stands. */
export type ModelStatus =
  | { readonly status: 'loading' }
  | { readonly status: 'ok'; readonly model: ServedModel }
  | { readonly status: 'error'; readonly error: unknown }

/** Most notes that are told apart: clients word parts of them. */
const MAX_NOTES = 100

/** What all routes share: the model or the wait for it, the queue, and whether the server still takes requests. */
export class ServerState {
  readonly config: Config
  readonly logger: Logger
  readonly queue: RequestQueue
  readonly progress: () => LoadProgress | undefined
  /** Unix time in seconds. */
  readonly startedAt = Math.floor(Date.now() / 1000)
  #model: ModelStatus = { status: 'loading' }
  #draining = false
  readonly #noted = new Set<string>()

  constructor(
    model: ServedModel | Promise<ServedModel>,
    config: Config,
    logger: Logger,
    progress: () => LoadProgress | undefined,
  ) {
    this.config = config
    this.logger = logger
    this.progress = progress
    this.queue = new RequestQueue({ maxDepth: config.maxQueueDepth, timeoutMs: config.queueTimeout * 1000 })
    if ('then' in model) {
      model.then(
        (loaded) => (this.#model = { status: 'ok', model: loaded }),
        (error: unknown) => (this.#model = { status: 'error', error }),
      )
    } else this.#model = { status: 'ok', model }
  }

  get modelStatus(): ModelStatus {
    return this.#model
  }

  get draining(): boolean {
    return this.#draining
  }

  /** The model, or the reason why there is none. */
  requireModel(): ServedModel {
    const now = this.#model
    switch (now.status) {
      case 'ok':
        return now.model
      case 'loading':
        throw modelLoading()
      case 'error':
        throw modelFailed(now.error)
    }
  }

  /** Logs something at its first time; after very many different things nothing more. */
  noteOnce(message: string): void {
    if (this.#noted.has(message) || this.#noted.size >= MAX_NOTES) return
    this.#noted.add(message)
    this.logger.info({}, message)
  }

  /** Turns new requests away, and waiting ones that have not been sent a byte; resolves when the last of the others is over. */
  drain(): Promise<void> {
    this.#draining = true
    this.queue.close(shuttingDown())
    return this.queue.idle()
  }
}
