/**
 * Tokenizer, template and end tokens out of a GGUF file's metadata.
 *
 * Only keys are read here, never weights; the file is untrusted, so every count and length is compared with the bytes
 * that are left before it is used. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */
import { open, type FileHandle } from 'node:fs/promises'

/** A defect in a GGUF file's header or metadata, in words. */
export class GgufError extends Error {
  override readonly name = 'GgufError'
}

/** What the text side of a model needs from a GGUF file. */
export interface GgufText {
  /** The same content a `tokenizer.json` would have, or undefined when the file carries no tokenizer. */
  readonly tokenizerJson: Record<string, unknown> | undefined
  /** What `tokenizer_config.json` would say. */
  readonly tokenizerConfig: Record<string, unknown>
  /** Ids that end an answer. */
  readonly endTokens: readonly number[]
}

type Value = number | bigint | boolean | string | readonly Value[]

const MAX_HEADER = 1 << 30
const MAX_NESTING = 4
/** Bytes of each scalar value type; strings (8) and arrays (9) have their own rules. */
const SCALAR_SIZE: Record<number, number> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 }

/** Qwen's split pattern, which `tokenizer.ggml.pre = qwen2` stands for. */
const QWEN2_SPLIT =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const TOKEN_TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const

/** Thrown inside when the bytes read so far end before the header does. */
class NeedMore extends Error {}

class Cursor {
  at = 0
  constructor(
    private readonly bytes: Buffer,
    private readonly whole: boolean,
    private readonly fileSize: number,
  ) {}

  take(n: number, what: string): Buffer {
    if (this.at + n > this.bytes.length) {
      if (!this.whole) throw new NeedMore()
      throw new GgufError(
        `truncated: ${what} at byte ${this.at} needs ${n} bytes, ${this.bytes.length - this.at} are left`,
      )
    }
    this.at += n
    return this.bytes.subarray(this.at - n, this.at)
  }

  u32(what: string): number {
    return this.take(4, what).readUInt32LE()
  }

  /** A count of things that each take at least `least` bytes of what is left of the file. */
  count(least: number, what: string): number {
    const n = this.take(8, what).readBigUInt64LE()
    const left = this.fileSize - this.at
    if (n > BigInt(Math.floor(left / least))) {
      throw new GgufError(`the ${what} is ${n}, but only ${left} bytes are left`)
    }
    return Number(n)
  }

  text(what: string): string {
    const bytes = this.take(this.count(1, `length of ${what}`), what)
    try {
      return utf8.decode(bytes)
    } catch {
      throw new GgufError(`${what} at byte ${this.at - bytes.length} is not UTF-8`)
    }
  }

  value(type: number, key: string, keep: boolean, depth = 0): Value {
    const what = `the value of key ${JSON.stringify(key)}`
    if (type === 8) return keep ? this.text(what) : this.skip(this.count(1, `length of ${what}`), what)
    if (type !== 9) return this.scalar(type, key, what)
    if (depth === MAX_NESTING) throw new GgufError(`${what} nests arrays deeper than ${MAX_NESTING}`)
    const element = this.u32(what)
    const size = element === 8 ? 8 : element === 9 ? 12 : this.scalarSize(element, key)
    const n = this.count(size, `element count of key ${JSON.stringify(key)}`)
    if (!keep && element !== 8 && element !== 9) return this.skip(n * size, what)
    const out: Value[] = []
    for (let i = 0; i < n; i++) {
      const v = this.value(element, key, keep, depth + 1)
      if (keep) out.push(v)
    }
    return out
  }

  private skip(n: number, what: string): Value {
    this.take(n, what)
    return 0
  }

  private scalarSize(type: number, key: string): number {
    const size = SCALAR_SIZE[type]
    if (size === undefined) {
      throw new GgufError(`key ${JSON.stringify(key)} has the unknown value type ${type}; 0 to 12 are known`)
    }
    return size
  }

  private scalar(type: number, key: string, what: string): Value {
    const b = this.take(this.scalarSize(type, key), what)
    switch (type) {
      case 0:
        return b.readUInt8()
      case 1:
        return b.readInt8()
      case 2:
        return b.readUInt16LE()
      case 3:
        return b.readInt16LE()
      case 4:
        return b.readUInt32LE()
      case 5:
        return b.readInt32LE()
      case 6:
        return b.readFloatLE()
      case 7:
        return b.readUInt8() !== 0
      case 10:
        return b.readBigUInt64LE()
      case 11:
        return b.readBigInt64LE()
      default:
        return b.readDoubleLE()
    }
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Reads the text side of a GGUF file.
 *
 * @throws GgufError naming the key or place, what was expected and what was found
 */
export async function readGgufText(path: string): Promise<GgufText> {
  const keys = await readKeys(path)
  return { tokenizerJson: tokenizerJson(keys), tokenizerConfig: tokenizerConfig(keys), endTokens: endTokens(keys) }
}

async function readKeys(path: string): Promise<Map<string, Value>> {
  const file = await open(path, 'r')
  try {
    const size = (await file.stat()).size
    for (let want = 1 << 24; ; want *= 2) {
      const length = Math.min(want, size, MAX_HEADER)
      const whole = length === size || length === MAX_HEADER
      const bytes = await readHead(file, length)
      try {
        return parseKeys(new Cursor(bytes, whole, size))
      } catch (error) {
        if (!(error instanceof NeedMore)) throw error
      }
    }
  } finally {
    await file.close()
  }
}

async function readHead(file: FileHandle, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length)
  for (let at = 0; at < length;) {
    const { bytesRead } = await file.read(bytes, at, length - at, at)
    if (bytesRead === 0) throw new GgufError(`truncated: the file ended at byte ${at} while it was read`)
    at += bytesRead
  }
  return bytes
}

function parseKeys(c: Cursor): Map<string, Value> {
  if (c.take(4, 'the magic number').toString('latin1') !== 'GGUF') throw new GgufError('not a GGUF file')
  const version = c.u32('the version')
  if (version !== 2 && version !== 3) throw new GgufError(`GGUF version ${version}; versions 2 and 3 are read`)
  c.count(33, 'tensor count')
  const n = c.count(14, 'key count')
  const keys = new Map<string, Value>()
  const seen = new Set<string>()
  for (let i = 0; i < n; i++) {
    const key = c.text("a key's name")
    if (seen.has(key)) throw new GgufError(`key ${JSON.stringify(key)} is there twice`)
    seen.add(key)
    const keep = key.startsWith('tokenizer.') || key === 'general.architecture'
    const value = c.value(c.u32(`the type of key ${JSON.stringify(key)}`), key, keep)
    if (keep) keys.set(key, value)
  }
  return keys
}

function wrong(key: string, expected: string, found: unknown): never {
  const text = Array.isArray(found)
    ? `an array of ${found.length}`
    : JSON.stringify(found, (_, v: unknown) => (typeof v === 'bigint' ? `${v}` : v))
  throw new GgufError(`key ${JSON.stringify(key)} is ${text}, expected ${expected}`)
}

function texts(keys: Map<string, Value>, key: string): string[] {
  const v = keys.get(key)
  if (!Array.isArray(v) || !v.every((t) => typeof t === 'string')) wrong(key, 'an array of strings', v ?? null)
  return v
}

function tokenId(keys: Map<string, Value>, key: string, vocab: number): number | undefined {
  const v = keys.get(key)
  if (v === undefined) return undefined
  const id = typeof v === 'bigint' ? Number(v) : v
  if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id >= vocab)
    wrong(key, `a token id below ${vocab}`, v)
  return id
}

/** The `tokenizer.json` these keys were made from: byte-level BPE with Qwen's split, control and user-defined tokens added. */
function tokenizerJson(keys: Map<string, Value>): Record<string, unknown> | undefined {
  const model = keys.get('tokenizer.ggml.model')
  if (model === undefined) return undefined
  if (model !== 'gpt2') wrong('tokenizer.ggml.model', '"gpt2" (byte-level BPE)', model)
  const pre = keys.get('tokenizer.ggml.pre')
  if (pre !== 'qwen2') wrong('tokenizer.ggml.pre', '"qwen2"', pre ?? null)
  const tokens = texts(keys, 'tokenizer.ggml.tokens')
  const types = keys.get('tokenizer.ggml.token_type') ?? tokens.map(() => TOKEN_TYPE.normal)
  if (!Array.isArray(types) || types.length !== tokens.length) {
    wrong('tokenizer.ggml.token_type', `an array of ${tokens.length} numbers`, types)
  }
  const vocab: Record<string, number> = Object.create(null) as Record<string, number>
  const added: Record<string, unknown>[] = []
  tokens.forEach((content, id) => {
    const type: unknown = types[id]
    if (type === TOKEN_TYPE.control || type === TOKEN_TYPE.userDefined) {
      const special = type === TOKEN_TYPE.control
      added.push({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special })
    } else if (type === TOKEN_TYPE.normal || type === TOKEN_TYPE.byte) {
      if (content in vocab)
        throw new GgufError(`token ${JSON.stringify(content)} is there twice, as ids ${vocab[content]} and ${id}`)
      vocab[content] = id
    } else if (type !== TOKEN_TYPE.unused && type !== TOKEN_TYPE.unknown) {
      wrong('tokenizer.ggml.token_type', 'types from 1 to 6', type)
    }
  })
  const merges = texts(keys, 'tokenizer.ggml.merges').map((merge) => {
    // The pieces are byte-level spellings, which hold no space: the one space is the border.
    const pair = merge.split(' ')
    if (pair.length !== 2 || pair[0] === '' || pair[1] === '') wrong('tokenizer.ggml.merges', 'pairs "a b"', merge)
    return pair
  })
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false }
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: added,
    normalizer: { type: 'NFC' },
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: QWEN2_SPLIT }, behavior: 'Isolated', invert: false },
        byteLevel,
      ],
    },
    post_processor: byteLevel,
    decoder: byteLevel,
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: '',
      end_of_word_suffix: '',
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab,
      merges,
    },
  }
}

function tokenizerConfig(keys: Map<string, Value>): Record<string, unknown> {
  const named: { name: string; template: string }[] = []
  for (const [key, value] of keys) {
    const name = key === 'tokenizer.chat_template' ? 'default' : /^tokenizer\.chat_template\.(.+)$/.exec(key)?.[1]
    if (name === undefined) continue
    if (typeof value !== 'string') wrong(key, 'a string', value)
    named.push({ name, template: value })
  }
  const tokens = keys.get('tokenizer.ggml.tokens')
  const spelling = (key: string): string | null => {
    if (!Array.isArray(tokens)) return null
    const id = tokenId(keys, key, tokens.length)
    return id === undefined ? null : (tokens[id] as string)
  }
  const only = named.length === 1 && named[0]?.name === 'default' ? named[0].template : undefined
  return {
    ...(named.length > 0 ? { chat_template: only ?? named } : {}),
    bos_token: spelling('tokenizer.ggml.bos_token_id'),
    eos_token: spelling('tokenizer.ggml.eos_token_id'),
    pad_token: spelling('tokenizer.ggml.padding_token_id'),
    add_bos_token: keys.get('tokenizer.ggml.add_bos_token') === true,
    clean_up_tokenization_spaces: false,
  }
}

function endTokens(keys: Map<string, Value>): number[] {
  const tokens = keys.get('tokenizer.ggml.tokens')
  const vocab = Array.isArray(tokens) ? tokens.length : 0
  const ids = ['eos', 'eot']
    .map((name) => tokenId(keys, `tokenizer.ggml.${name}_token_id`, vocab))
    .filter((id) => id !== undefined)
  return [...new Set(ids)]
}
