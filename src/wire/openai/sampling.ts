import type { SamplingParams } from '../../chat/types.js'
import type { RequestDefaults } from '../defaults.js'
import { optional, unsupported, type JsonSchema } from '../json-schema.js'

const MAX_STOPS = 16
const MAX_STOP_LENGTH = 4096

/** Sampling fields, the same in both kinds of request. */
export const samplingSchema: Readonly<Record<string, JsonSchema>> = {
  model: optional(
    'string',
    'Echoed in the answer. Another id than the served one is a 404 under MAPLE_STRICT_MODEL and means nothing otherwise. ' +
      'Absent, null and empty mean the served model.',
    ['maple-preview'],
    // It comes back in every chunk of a stream.
    { maxLength: 1000 },
  ),
  max_tokens: optional(
    'integer',
    'Most tokens to generate, reasoning included. Default MAPLE_MAX_NEW_TOKENS, capped at MAPLE_MAX_NEW_TOKENS_LIMIT and ' +
      'at what is left of the context; an answer cut there has finish_reason length.',
    [64],
    { minimum: 1 },
  ),
  max_completion_tokens: optional('integer', 'Newer name of max_tokens; wins where both are given.', [64], {
    minimum: 1,
  }),
  temperature: optional('number', '0 is greedy, whatever else is set. Default MAPLE_TEMPERATURE.', [0.6, 0], {
    minimum: 0,
    maximum: 2,
  }),
  top_p: optional(
    'number',
    'Draw from the smallest set of tokens whose mass reaches this. Default MAPLE_TOP_P.',
    [0.95],
    { exclusiveMinimum: 0, maximum: 1 },
  ),
  top_k: optional(
    'integer',
    'Draw from the k likeliest tokens; 0, -1 and more than the vocabulary turn it off. Default MAPLE_TOP_K.',
    [20, -1],
    { minimum: -1 },
  ),
  repetition_penalty: optional(
    'number',
    'Above 1 discourages tokens of the prompt and the answer so far. 1 is off, and the default.',
    [1.1],
    { exclusiveMinimum: 0 },
  ),
  seed: optional(
    'integer',
    'Same seed and same request, same answer, whatever else the server is doing. Folded to 64 bits. Random by default.',
    [42],
  ),
  stop: optional(
    ['string', 'array'],
    'Ends the answer where one of these occurs in the raw text, reasoning included; what was found is not sent. Empty ' +
      'ones are ignored.',
    ['\n\n', ['END', '###']],
    { maxLength: MAX_STOP_LENGTH, maxItems: MAX_STOPS, items: { type: 'string', maxLength: MAX_STOP_LENGTH } },
  ),
  stream: optional('boolean', 'Answer as server-sent events, ended by data: [DONE].', [true]),
  stream_options: optional('object', 'Read only together with stream.', [{ include_usage: true }], {
    properties: {
      include_usage: optional('boolean', 'Send token counts in a last chunk before [DONE].', [true]),
    },
  }),
  n: unsupported('integer', 1, 'must be 1'),
  presence_penalty: optional('number', 'Accepted and ignored.', [0.5]),
  frequency_penalty: optional('number', 'Accepted and ignored.', [0.5]),
  user: optional('string', 'Accepted and ignored.', ['someone']),
}

/** Sampling fields after validation. */
export interface SamplingBody {
  readonly model?: string | null
  readonly max_tokens?: number | null
  readonly max_completion_tokens?: number | null
  readonly temperature?: number | null
  readonly top_p?: number | null
  readonly top_k?: number | null
  readonly repetition_penalty?: number | null
  readonly seed?: number | bigint | null
  readonly stop?: string | readonly string[] | null
  readonly stream?: boolean | null
  readonly stream_options?: { readonly include_usage?: boolean | null } | null
}

/** Above every vocabulary, where top-k is off, and still a 32-bit integer. */
const MAX_TOP_K = 2 ** 31 - 1

/** Reads the sampling fields of a request that passed its schema. */
export function readSampling(body: SamplingBody, defaults: RequestDefaults): SamplingParams {
  const maxTokens = body.max_completion_tokens ?? body.max_tokens ?? defaults.maxNewTokens
  return {
    // Number(): a whole number past 2^53 is a bigint here.
    maxTokens: Math.min(Number(maxTokens), defaults.maxNewTokensLimit),
    temperature: Number(body.temperature ?? defaults.temperature),
    topP: Number(body.top_p ?? defaults.topP),
    topK: Math.min(Number(body.top_k ?? defaults.topK), MAX_TOP_K),
    repetitionPenalty: Number(body.repetition_penalty ?? 1),
    seed: readSeed(body.seed),
    stop: [body.stop ?? []].flat().filter((text) => text !== ''),
  }
}

/** Any integer; those that a double writes without being exact (1e20) are taken at their double's value. */
function readSeed(seed: number | bigint | null | undefined): number | bigint | undefined {
  if (seed === null || seed === undefined) return undefined
  return typeof seed === 'number' && !Number.isSafeInteger(seed) ? BigInt(seed) : seed
}

/** Whether the answer is streamed, and whether a stream ends with token counts. */
export function readStream(body: SamplingBody): { stream: boolean; includeUsage: boolean } {
  const stream = body.stream ?? false
  return { stream, includeUsage: stream && (body.stream_options?.include_usage ?? false) }
}
