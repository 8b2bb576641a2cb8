import type { WireUsage } from '../../wire/openai/types.js'

/** `POST /v1/completions`: the whole answer, or one event of a streamed one. */
export interface TextCompletion {
  readonly id: string
  readonly object: 'text_completion'
  readonly created: number
  readonly model: string
  /** Empty in the usage chunk. */
  readonly choices: readonly {
    readonly index: 0
    readonly text: string
    readonly logprobs: null
    readonly finish_reason: 'stop' | 'length' | null
  }[]
  readonly usage?: WireUsage | null
}
