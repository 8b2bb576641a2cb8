import { setImmediate } from 'node:timers/promises'
import { BytePairEncoder } from './bpe.js'
import type { CompiledTokenizer } from './compiled.js'
import { StreamDetokenizer } from './detokenize.js'
import type { AddedToken } from './tokenizer-file.js'
import { createSplitter, type Splitter } from './split.js'
import { Str } from './str.js'
import type { Detokenizer, EncodeOptions, RenderedPrompt } from './types.js'

/** Text to be encoded as plain text whatever it spells, or one control token. */
type PromptPiece =
  { readonly text: string; readonly token?: undefined } | { readonly text: string; readonly token: number }

/** Markers that the chat grammar reads: text of the answer, even where a tokenizer flags them as special. */
const MARKERS = /^<\/?(think|tool_call|tool_response)>$/
/** Milliseconds that encoding may keep the thread. */
const SLICE_MS = 8
/**
 * A byte-level BPE tokenizer from a compiled `tokenizer.json`. Normalising and splitting are `@huggingface/tokenizers`'; the
 * merging is ours, which loads in a fraction of the time and can give way to other work. Added tokens are found here too,
 * so that text from requests can be encoded without finding any.
 */
export class Tokenizer {
  /** Ids above the largest one that has a token. */
  readonly size: number
  private readonly splitter: Splitter
  private readonly encoder: BytePairEncoder
  private readonly spellings: RegExp | undefined
  private readonly added: ReadonlyMap<string, AddedToken>
  private readonly bytes: Uint8Array
  private readonly ends: Int32Array
  private readonly control = new Set<number>()

  /** Throws a plain error that names what the file asks for and this tokenizer does not do. */
  constructor({ normalizer, preTokenizer, added, bytes, ends, byteTokens, merges }: CompiledTokenizer) {
    this.splitter = createSplitter(normalizer, preTokenizer)
    this.encoder = new BytePairEncoder(byteTokens, merges)
    for (const { id, content, special } of added) {
      if (special && !MARKERS.test(content)) this.control.add(id)
    }
    this.bytes = bytes
    this.ends = ends
    this.size = ends.length
    this.added = new Map(added.map((token) => [token.content, token]))
    this.spellings = alternatives([...this.added.keys()])
  }

  /** Whether every byte has a token, so that every text can be encoded. */
  get complete(): boolean {
    return this.encoder.complete
  }

  /** Id of an added token. */
  addedId(content: string): number | undefined {
    return this.added.get(content)?.id
  }

  /** Cuts a text at the control tokens that lie wholly inside its own stretches. */
  cut(text: RenderedPrompt): PromptPiece[] {
    const pieces: PromptPiece[] = []
    let done = 0
    const plain = (end: number): void => {
      if (end > done) pieces.push({ text: text.text.slice(done, end) })
    }
    for (let i = 0; this.spellings !== undefined && i < text.own.length; i += 2) {
      const [from, to] = [text.own[i]!, text.own[i + 1]!]
      for (const match of text.text.slice(from, to).matchAll(this.spellings)) {
        const token = this.added.get(match[0])!
        const start = from + match.index
        const end = start + match[0].length
        if (start < done || (token.singleWord && touchesWord(text.text, start, end))) continue
        plain(token.lstrip ? done + text.text.slice(done, start).trimEnd().length : start)
        pieces.push({ text: token.content, token: token.id })
        done = token.rstrip ? text.text.length - text.text.slice(end).trimStart().length : end
      }
    }
    plain(text.text.length)
    return pieces
  }

  /** Ids of a text; with `special`, spellings of added tokens become those tokens. */
  encode(text: string, special: boolean): Uint32Array {
    return this.encodeAll(this.pieces(text, special))
  }

  /** Ids of pieces, at one go. */
  encodeAll(pieces: readonly PromptPiece[]): Uint32Array {
    const out: number[] = []
    const steps = this.steps(pieces, out)
    while (steps.next().done !== true);
    return Uint32Array.from(out)
  }

  /** The pieces of a whole text. */
  pieces(text: string, special: boolean): PromptPiece[] {
    const plain = Str.data(text)
    return this.cut(special ? Str.own(plain.text) : plain)
  }

  /** Ids of pieces, giving way to other work every few milliseconds. Rejects with the signal's reason. */
  async encodePieces(pieces: readonly PromptPiece[], { signal }: EncodeOptions = {}): Promise<Uint32Array> {
    const out: number[] = []
    const steps = this.steps(pieces, out)
    for (let until = performance.now() + SLICE_MS; steps.next().done !== true;) {
      signal?.throwIfAborted()
      if (performance.now() < until) continue
      await setImmediate()
      until = performance.now() + SLICE_MS
    }
    return Uint32Array.from(out)
  }

  /** Encodes pieces into `out`, a little between two yields. */
  private *steps(pieces: readonly PromptPiece[], out: number[]): Generator<void, void> {
    for (const piece of pieces) {
      if (piece.token !== undefined) {
        out.push(piece.token)
        continue
      }
      for (const words of this.splitter.split(piece.text)) {
        for (const word of words) yield* this.encoder.encode(word, out)
        yield
      }
    }
  }

  /** Bytes of an id as an answer shows them; undefined for control tokens (unless `special`) and for ids without a token. */
  private bytesOf(id: number, special: boolean): Uint8Array | undefined {
    if (!special && this.control.has(id)) return undefined
    const end = this.ends[id] ?? 0
    const start = id === 0 ? 0 : (this.ends[id - 1] ?? 0)
    return end > start ? this.bytes.subarray(start, end) : undefined
  }

  detokenizer(special: boolean): Detokenizer {
    return new StreamDetokenizer((id) => this.bytesOf(id, special))
  }
}

/** A pattern that finds the longest of some texts at each place. */
function alternatives(texts: readonly string[]): RegExp | undefined {
  if (texts.length === 0) return undefined
  const longestFirst = texts.toSorted((a, b) => b.length - a.length)
  return new RegExp(longestFirst.map((text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|'), 'g')
}

function touchesWord(text: string, start: number, end: number): boolean {
  return (
    /[\p{L}\p{N}_]$/u.test(text.slice(Math.max(start - 2, 0), start)) ||
    /^[\p{L}\p{N}_]/u.test(text.slice(end, end + 2))
  )
}
