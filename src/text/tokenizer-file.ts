/** An entry of `added_tokens`. */
export interface AddedToken {
  readonly id: number
  readonly content: string
  /** A control token: it has no text in an answer. */
  readonly special: boolean
  /** Whether the token takes the white space on its left, or right, with it. */
  readonly lstrip: boolean
  readonly rstrip: boolean
  /** Whether it counts only where no word character touches it. */
  readonly singleWord: boolean
}

/** What this package needs of a `tokenizer.json`, checked. */
export interface TokenizerFile {
  /** Steps before the model, as `@huggingface/tokenizers` reads them. */
  readonly normalizer: unknown
  readonly preTokenizer: unknown
  readonly vocab: ReadonlyMap<string, number>
  readonly merges: readonly (readonly [string, string])[]
  readonly added: readonly AddedToken[]
}

/** Ids above this are a broken file, not a vocabulary. */
const MAX_ID = 1 << 22

type Fields = Readonly<Record<string, unknown>>

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function object(value: unknown, what: string): Fields {
  if (!isObject(value)) throw new Error(`${what} must be an object`)
  return value
}

function list(value: unknown, what: string): readonly unknown[] {
  if (!Array.isArray(value)) throw new Error(`${what} must be a list`)
  return value
}

function isId(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_ID
}

function badId(value: unknown, what: string): Error {
  return new Error(`the id of ${what} must be a whole number from 0 to ${MAX_ID}, found ${JSON.stringify(value)}`)
}

/** Checks a parsed `tokenizer.json`. Throws a plain error that names the field, what is needed and what is there. */
export function checkTokenizerFile(parsed: unknown): TokenizerFile {
  const file = object(parsed, 'the file')
  const model = object(file.model, 'model')
  if (model.type !== undefined && model.type !== 'BPE') {
    throw new Error(`model.type must be "BPE", found ${JSON.stringify(model.type)}`)
  }
  if (!hasStep(file.decoder, 'ByteLevel', 'decoders')) throw new Error('decoder must be ByteLevel')
  if (!hasStep(file.pre_tokenizer, 'ByteLevel', 'pretokenizers'))
    throw new Error('pre_tokenizer must include ByteLevel')
  for (const name of ['dropout', 'continuing_subword_prefix', 'end_of_word_suffix', 'byte_fallback', 'ignore_merges']) {
    if (model[name]) throw new Error(`model.${name} is ${JSON.stringify(model[name])}, which is not supported`)
  }
  const added = list(file.added_tokens ?? [], 'added_tokens').map(checkAdded)
  const vocab = new Map<string, number>()
  const owners: (string | undefined)[] = []
  for (const [token, id] of Object.entries(object(model.vocab, 'model.vocab'))) {
    if (!isId(id)) throw badId(id, JSON.stringify(token))
    if (owners[id] !== undefined) throw doubled(id, owners[id], token)
    owners[id] = token
    vocab.set(token, id)
  }
  for (const { id, content } of added) {
    const owner = owners[id] ?? content
    if (owner !== content) throw doubled(id, owner, content)
    owners[id] = content
  }
  return {
    normalizer: file.normalizer ?? null,
    preTokenizer: file.pre_tokenizer,
    vocab,
    // Ordinary text must not turn into an added token by way of merges.
    merges: withoutResults(
      list(model.merges, 'model.merges').map(checkMerge),
      new Set(added.map(({ content }) => content)),
    ),
    added,
  }
}

function doubled(id: number, one: string, other: string): Error {
  return new Error(`id ${id} belongs to both ${JSON.stringify(one)} and ${JSON.stringify(other)}`)
}

/** The merges without those that would spell one of `results`. */
function withoutResults(merges: [string, string][], results: ReadonlySet<string>): [string, string][] {
  const lengths = new Set([...results].map((text) => text.length))
  return merges.filter(([left, right]) => !lengths.has(left.length + right.length) || !results.has(left + right))
}

function hasStep(step: unknown, type: string, children: string): boolean {
  if (!isObject(step)) return false
  const inner = step[children]
  return step.type === type || (Array.isArray(inner) && inner.some((each) => hasStep(each, type, children)))
}

function checkMerge(merge: unknown, i: number): [string, string] {
  const pair: unknown = typeof merge === 'string' ? merge.split(' ') : merge
  if (Array.isArray(pair) && pair.length === 2 && pair.every((part) => typeof part === 'string' && part !== '')) {
    return pair as [string, string]
  }
  throw new Error(`model.merges[${i}] must be a pair of tokens, found ${JSON.stringify(merge)}`)
}

function checkAdded(value: unknown, i: number): AddedToken {
  const token = object(value, `added_tokens[${i}]`)
  const { content } = token
  if (typeof content !== 'string' || content === '')
    throw new Error(`added_tokens[${i}].content must be a non-empty string`)
  if (!isId(token.id)) throw badId(token.id, `added_tokens[${i}]`)
  return {
    id: token.id,
    content,
    special: token.special === true,
    lstrip: token.lstrip === true,
    rstrip: token.rstrip === true,
    singleWord: token.single_word === true,
  }
}
