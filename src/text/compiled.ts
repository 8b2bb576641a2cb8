import { BytePairEncoder } from './bpe.js'
import { bytesOfToken } from './bytes.js'
import type { AddedToken, TokenizerFile } from './tokenizer-file.js'

/** A checked `tokenizer.json` in flat arrays, quick to write to a file and to read again. */
export interface CompiledTokenizer {
  /** Steps before the model, as `@huggingface/tokenizers` reads them. */
  readonly normalizer: unknown
  readonly preTokenizer: unknown
  readonly added: readonly AddedToken[]
  /** The bytes of all tokens, one after another in the order of their ids. */
  readonly bytes: Uint8Array
  /** Where the bytes of each id end; an id without a token has none. */
  readonly ends: Int32Array
  /** Token of each byte, -1 where there is none. */
  readonly byteTokens: Int32Array
  /** The merges, as {@link BytePairEncoder} looks them up. */
  readonly merges: Int32Array
}

/** Looks up vocabulary and merges. Throws a plain error where they do not fit together. */
export function compileTokenizer(file: TokenizerFile): CompiledTokenizer {
  const tokens: (Uint8Array | undefined)[] = []
  for (const [token, id] of file.vocab) tokens[id] = bytesOfToken(token)
  for (const { id, content } of file.added) tokens[id] = Buffer.from(content, 'utf8')
  const ends = new Int32Array(tokens.length)
  let end = 0
  for (let id = 0; id < tokens.length; id++) ends[id] = end += tokens[id]?.length ?? 0
  const bytes = new Uint8Array(end)
  for (let id = 0; id < tokens.length; id++) {
    const token = tokens[id]
    if (token !== undefined) bytes.set(token, ends[id]! - token.length)
  }
  const { normalizer, preTokenizer, added } = file
  return { normalizer, preTokenizer, added, bytes, ends, ...BytePairEncoder.compile(file.vocab, file.merges) }
}
