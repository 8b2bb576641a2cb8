import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { packageVersion } from '../version.js'
import type { RequestRecord } from './record.js'
import type { ServerState } from './state.js'

/** Status that logs and metrics give to a request whose reader left before the answer was complete. */
export const CLIENT_GONE = 499

const SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
const TOKEN_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
const RATES = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000]

/**
 * The numbers behind `/metrics`. Labels come from the route table and from fixed words, so requests cannot add series.
 * Each app has a registry of its own.
 */
export class Metrics {
  readonly #registry = new Registry()
  readonly #registers = [this.#registry]

  readonly #requests = new Counter({
    name: 'maple_requests_total',
    help: `Requests that are over. Status ${CLIENT_GONE}: the client left before the answer was complete.`,
    labelNames: ['route', 'status'],
    registers: this.#registers,
  })
  readonly #duration = this.#histogram('maple_request_duration_seconds', 'Time to the last byte.', SECONDS, ['route'])
  readonly #aborts = new Counter({
    name: 'maple_aborts_total',
    help: 'Requests whose client left, by what they were doing: reading, queue, prefill, decode, sending.',
    labelNames: ['phase'],
    registers: this.#registers,
  })
  readonly #queueWait = this.#histogram('maple_queue_wait_seconds', 'Time that requests stood in line.', SECONDS)
  readonly #promptTokens = this.#counter('maple_prompt_tokens_total', 'Tokens of prompts, reused ones included.')
  readonly #reusedTokens = this.#counter(
    'maple_prefix_reused_tokens_total',
    'Prompt tokens whose keys and values were still there from an earlier request.',
  )
  readonly #generatedTokens = this.#counter(
    'maple_generated_tokens_total',
    'Tokens generated, aborted answers included.',
  )
  readonly #firstToken = this.#histogram(
    'maple_time_to_first_token_seconds',
    'From the arrival of a request to its first token, waiting included.',
    SECONDS,
  )
  readonly #tokenTime = this.#histogram(
    'maple_time_per_token_seconds',
    'Mean time between the tokens of an answer.',
    TOKEN_SECONDS,
  )
  readonly #prefillRate = this.#histogram(
    'maple_prefill_tokens_per_second',
    'Prompt tokens read a second, reused ones left out, by answer.',
    RATES,
  )
  readonly #decodeRate = this.#histogram(
    'maple_decode_tokens_per_second',
    'Tokens generated a second after the first, by answer.',
    RATES,
  )

  constructor(state: ServerState) {
    const { queue } = state
    this.#gauge('maple_queue_depth', 'Requests that wait for a slot.', () => queue.depth)
    this.#gauge('maple_active_requests', 'Requests that hold a slot.', () => queue.active)
    const info = () => (state.modelStatus.status === 'ok' ? state.modelStatus.model.info : undefined)
    this.#gauge('maple_model_loaded', '1 when the model is there.', () => (info() ? 1 : 0))
    this.#gauge('maple_load_seconds', 'What loading took; 0 until it is over.', () => info()?.loadSeconds ?? 0)
    this.#gauge('maple_weight_bytes', 'Bytes of weights held or mapped.', () => info()?.weightBytes ?? 0)
    this.#gauge('maple_resident_memory_bytes', 'Memory of the process, mapped weights included.', () =>
      process.memoryUsage.rss(),
    )
    this.#gauge('maple_heap_bytes', 'JavaScript heap in use.', () => process.memoryUsage().heapUsed)
    this.#gauge('maple_start_time_seconds', 'Unix time of the start.', () => state.startedAt)
    new Counter({
      name: 'maple_cpu_seconds_total',
      help: 'Processor time, user and system.',
      registers: this.#registers,
      collect() {
        const { user, system } = process.cpuUsage()
        this.reset()
        this.inc((user + system) / 1e6)
      },
    })
    new Gauge({
      name: 'maple_build_info',
      help: 'Always 1; the labels say what runs. dtype, isa and format are empty until the model is there.',
      labelNames: ['version', 'node', 'model', 'dtype', 'isa', 'format'],
      registers: this.#registers,
      collect() {
        const { dtype = '', isa = '', format = '' } = info() ?? {}
        this.reset()
        this.set({ version: packageVersion, node: process.version, model: state.config.modelId, dtype, isa, format }, 1)
      },
    })
  }

  /** Takes a request in that is over. `status` is {@link CLIENT_GONE} where nobody was there to read the answer. */
  add(record: RequestRecord, status: number): void {
    const { route, marks, promptTokens, cachedTokens, completionTokens } = record
    const { arrived, queued, granted, firstToken, lastToken } = marks
    const now = performance.now()
    this.#requests.inc({ route, status })
    this.#duration.observe({ route }, (now - arrived) / 1000)
    if (status === CLIENT_GONE) this.#aborts.inc({ phase: record.phase })
    if (queued === undefined) return
    this.#queueWait.observe(((granted ?? now) - queued) / 1000)
    if (granted === undefined || firstToken === undefined || lastToken === undefined) return
    this.#promptTokens.inc(promptTokens)
    this.#reusedTokens.inc(cachedTokens)
    this.#generatedTokens.inc(completionTokens)
    this.#firstToken.observe((firstToken - arrived) / 1000)
    observeRate(this.#prefillRate, promptTokens - cachedTokens, firstToken - granted)
    if (completionTokens < 2) return
    this.#tokenTime.observe((lastToken - firstToken) / 1000 / (completionTokens - 1))
    observeRate(this.#decodeRate, completionTokens - 1, lastToken - firstToken)
  }

  /** Content type of {@link text}. */
  get contentType(): string {
    return this.#registry.contentType
  }

  /** All numbers in the text format of Prometheus. */
  text(): Promise<string> {
    return this.#registry.metrics()
  }

  #counter(name: string, help: string): Counter {
    return new Counter({ name, help, registers: this.#registers })
  }

  #gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: this.#registers,
      collect() {
        this.set(read())
      },
    })
  }

  #histogram<L extends string = never>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: L[] = [],
  ): Histogram<L> {
    return new Histogram({ name, help, buckets, labelNames, registers: this.#registers })
  }
}

/** A rate over a time too short to measure says nothing. */
function observeRate(histogram: Histogram, tokens: number, ms: number): void {
  if (tokens > 0 && ms > 0) histogram.observe((tokens / ms) * 1000)
}
