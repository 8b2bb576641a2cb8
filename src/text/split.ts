import * as tokenizers from '@huggingface/tokenizers'

// The package's own declarations do not resolve under Node's module rules, so what is used of it is declared here.
const { Tokenizer } = tokenizers as unknown as {
  Tokenizer: new (
    file: object,
    config: object,
  ) => {
    readonly normalizer: { normalize(text: string): string } | null
    readonly pre_tokenizer: PreTokenizer | null
  }
}

/** What the library runs for a step. */
interface PreTokenizer {
  pre_tokenize(text: string | string[]): string[]
  /** Of a `Split`. */
  readonly pattern?: RegExp | null
  /** Of a `Sequence`. */
  readonly tokenizers?: readonly PreTokenizer[]
}

/** A part of a `pre_tokenizer` in `tokenizer.json`. */
interface Step {
  readonly type?: unknown
  readonly pattern?: { readonly Regex?: unknown }
  readonly behavior?: unknown
  readonly invert?: unknown
  readonly pretokenizers?: readonly Step[]
  readonly add_prefix_space?: unknown
  readonly use_regex?: unknown
  readonly individual_digits?: unknown
}

const GPT2 = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
const modern = (digits: string): string =>
  String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|` +
  digits +
  String.raw`| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
const QWEN = modern(String.raw`\p{N}`)

/** Split patterns (GPT-2's, Qwen's, Llama 3's) that always cut between a letter or digit and white space or punctuation. */
const CUT_AFTER_WORDS: ReadonlySet<unknown> = new Set([GPT2, QWEN, modern(String.raw`\p{N}{1,3}`)])
const WORD_END = /[\p{L}\p{N}](?=[\s\p{P}])/gu
const WORD_END_OR_DIGIT = /\p{N}(?!\p{M})|\p{L}(?=[\s\p{P}])/gu

/** Characters that are split in one go. */
const CHUNK = 4096

/** The steps before the BPE model: normalising and splitting a text into words. */
export interface Splitter {
  /** The words of a text, in bunches of a few thousand characters wherever the first step is a pattern. */
  split(text: string): Iterable<readonly string[]>
}

/**
 * Makes a splitter from `normalizer` and `pre_tokenizer`, run by `@huggingface/tokenizers`. Its byte-level alphabet step is
 * left out: words stay text, and the encoder takes their bytes. Throws a plain error for steps that are not known.
 */
export function createSplitter(normalizer: unknown, preTokenizer: unknown): Splitter {
  const step = withoutAlphabet(preTokenizer as Step)
  // Without vocabulary and added tokens the library's tokenizer holds just the steps before the model.
  const reference = new Tokenizer(
    {
      ...{ normalizer, pre_tokenizer: step, decoder: null, post_processor: null },
      ...{ added_tokens: [], model: { type: 'BPE', vocab: {}, merges: [] } },
    },
    {},
  )
  const normal = (text: string) => reference.normalizer?.normalize(text) ?? text
  const words = (text: string): readonly string[] =>
    reference.pre_tokenizer?.pre_tokenize(normal(text)) ?? [normal(text)]
  const cut = normalizer === null || (normalizer as Step).type === 'NFC' ? safeCut(step) : undefined
  const matches = cut === undefined ? bunches(step, reference.pre_tokenizer) : undefined
  return {
    *split(text) {
      if (matches !== undefined) return yield* matches(normal(text))
      let start = 0
      while (cut !== undefined && text.length - start > 2 * CHUNK) {
        cut.lastIndex = start + CHUNK
        const found = cut.exec(text)
        if (found === null) break
        const end = found.index + found[0].length
        yield words(text.slice(start, end))
        start = end
      }
      yield words(text.slice(start))
    },
  }
}

/** The same splitting without turning words into the byte-level alphabet; null where nothing is left of it. */
function withoutAlphabet(step: Step): Step | null {
  if (step.type === 'ByteLevel') {
    if (step.add_prefix_space === true) throw new Error('pre_tokenizer.add_prefix_space is not supported')
    if (step.use_regex === false) return null
    return { type: 'Split', pattern: { Regex: GPT2 }, ...{ behavior: 'Isolated', invert: false } }
  }
  if (step.type !== 'Sequence' || !Array.isArray(step.pretokenizers)) return step
  const rest = step.pretokenizers.map(withoutAlphabet).filter((each) => each !== null)
  return rest.length > 0 ? { type: 'Sequence', pretokenizers: rest } : null
}

/**
 * For patterns that do not say where a text may be cut: does match by match what the library does at one go. Undefined when
 * the first step is not a pattern, or one of another kind.
 */
function bunches(step: Step | null, reference: PreTokenizer | null) {
  const first = step?.type === 'Sequence' ? step.pretokenizers?.[0] : step
  const [runner, ...others] = reference?.tokenizers ?? [reference]
  const pattern = runner?.pattern
  if (first?.type !== 'Split' || first.invert === true || !pattern) return undefined
  if (String(first.behavior).toLowerCase() === 'removed') return undefined
  const finish = (words: string[]) => others.reduce<string[]>((some, other) => other?.pre_tokenize(some) ?? some, words)
  return function* (text: string): Generator<readonly string[], void> {
    let words: string[] = []
    let began = 0
    let end = 0
    for (const match of text.matchAll(pattern)) {
      if (end < match.index) words.push(text.slice(end, match.index))
      if (match[0] !== '') words.push(match[0])
      end = match.index + match[0].length
      if (end - began < CHUNK) continue
      yield finish(words)
      words = []
      began = end
    }
    if (end < text.length) words.push(text.slice(end))
    yield finish(words)
  }
}

/**
 * Finds places where a text may be cut before splitting without changing any word: the patterns look at nothing left of a
 * word, and none of their words holds such a place. Undefined when the steps are not known well enough to say.
 */
function safeCut(step: Step | null): RegExp | undefined {
  const steps = step?.type === 'Sequence' ? (step.pretokenizers ?? []) : step === null ? [] : [step]
  const cuts = steps.filter((each) => each.type === 'Split' && CUT_AFTER_WORDS.has(each.pattern?.Regex))
  const others = steps.filter((each) => !cuts.includes(each))
  if (cuts.length === 0 || !others.every((each) => each.type === 'Digits')) return undefined
  const digits =
    cuts.some((each) => each.pattern?.Regex === QWEN) || others.some((each) => each.individual_digits === true)
  return digits ? WORD_END_OR_DIGIT : WORD_END
}
