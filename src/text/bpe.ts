import { BYTE_TO_CHAR } from './bytes.js'

/** Words up to this many characters are remembered. */
const CACHED_LENGTH = 32
const CACHE_SIZE = 1 << 15
/** Merges between two looks at the clock in a long word. */
const STRETCH = 4096

/**
 * Byte-pair encoding over bytes: a word starts as one token a byte, and the adjacent pair whose merge was
 * learned first, the leftmost of equals, is joined until none is left. A heap of candidate pairs over a linked list makes
 * that O(n log n) for words of any length.
 */
export class BytePairEncoder {
  private readonly pairs: PairTable
  private readonly cache = new Map<string, readonly number[]>()

  /**
   * Looks up a vocabulary of spellings with their ids, and the pairs of spellings in the order they were learned. Throws a
   * plain error where a merge names a spelling that is not in the vocabulary.
   */
  static compile(
    vocab: ReadonlyMap<string, number>,
    merges: readonly (readonly [string, string])[],
  ): { byteTokens: Int32Array; merges: Int32Array } {
    const byteTokens = Int32Array.from(BYTE_TO_CHAR, (char) => vocab.get(String.fromCharCode(char)) ?? -1)
    const pairs = PairTable.forMerges(merges.length)
    merges.forEach(([left, right], rank) => {
      const [a, b, joined] = [vocab.get(left), vocab.get(right), vocab.get(left + right)]
      if (a === undefined || b === undefined || joined === undefined) {
        throw new Error(`merge ${rank} (${JSON.stringify([left, right])}) names a token that is not in the vocabulary`)
      }
      pairs.add(a, b, rank, joined)
    })
    return { byteTokens, merges: pairs.data }
  }

  /** `byteToId` has the token of each byte, -1 where there is none; both are as {@link compile} makes them. */
  constructor(
    private readonly byteToId: Int32Array,
    merges: Int32Array,
  ) {
    this.pairs = new PairTable(merges)
  }

  /** Whether every byte has a token of its own. */
  get complete(): boolean {
    return this.byteToId.every((id) => id >= 0)
  }

  /** Appends the ids of one word; yields now and then within a long one. */
  *encode(word: string, out: number[]): Generator<void, void> {
    const cached = this.cache.get(word)
    if (cached !== undefined) {
      for (const id of cached) out.push(id)
      return
    }
    const start = out.length
    yield* this.merge(word, out)
    if (word.length > CACHED_LENGTH) return
    if (this.cache.size >= CACHE_SIZE) this.cache.clear()
    this.cache.set(word, out.slice(start))
  }

  private *merge(word: string, out: number[]): Generator<void, void> {
    const bytes = Buffer.from(word, 'utf8')
    const ids = new Int32Array(bytes.length)
    let length = 0
    for (const byte of bytes) {
      const id = this.byteToId[byte]!
      if (id >= 0) ids[length++] = id
    }
    const next = new Int32Array(length)
    const previous = new Int32Array(length)
    for (let i = 0; i < length; i++) {
      next[i] = i + 1
      previous[i] = i - 1
    }
    const heap = new CandidateHeap(length)
    const consider = (left: number): void => {
      const right = left < 0 ? length : next[left]!
      if (right >= length) return
      const slot = this.pairs.find(ids[left]!, ids[right]!)
      if (slot >= 0) heap.push(this.pairs.ranks[slot]!, left)
    }
    for (let i = 0; i + 1 < length; i++) {
      consider(i)
      if (i % STRETCH === STRETCH - 1) yield
    }

    for (let step = 1; heap.size > 0; step++) {
      if (step % STRETCH === 0) yield
      const rank = heap.topRank()
      const left = heap.pop()
      // A candidate is stale when its left token is gone, or either token has been merged meanwhile.
      if (ids[left]! < 0 || next[left]! >= length) continue
      const right = next[left]!
      const slot = this.pairs.find(ids[left]!, ids[right]!)
      if (slot < 0 || this.pairs.ranks[slot] !== rank) continue
      ids[left] = this.pairs.joined[slot]!
      ids[right] = -1
      next[left] = next[right]!
      if (next[left] < length) previous[next[left]] = left
      consider(previous[left]!)
      consider(left)
    }
    for (let i = 0; i < length; i = next[i]!) out.push(ids[i]!)
  }
}

/** Hash table from a pair of ids to the merge's rank and result; open addressing in four flat arrays, one after another. */
class PairTable {
  readonly ranks: Int32Array
  readonly joined: Int32Array
  private readonly lefts: Int32Array
  private readonly rights: Int32Array
  private readonly mask: number

  /** An empty table with room for so many merges. */
  static forMerges(count: number): PairTable {
    let size = 16
    while (size < count * 2) size *= 2
    return new PairTable(new Int32Array(4 * size).fill(-1, 0, size))
  }

  constructor(readonly data: Int32Array) {
    const size = data.length / 4
    this.mask = size - 1
    this.lefts = data.subarray(0, size)
    this.rights = data.subarray(size, 2 * size)
    this.ranks = data.subarray(2 * size, 3 * size)
    this.joined = data.subarray(3 * size)
  }

  private slot(left: number, right: number): number {
    let slot = (Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b)) >>> 0
    slot = (slot ^ (slot >>> 15)) & this.mask
    while (this.lefts[slot] !== -1 && (this.lefts[slot] !== left || this.rights[slot] !== right)) {
      slot = (slot + 1) & this.mask
    }
    return slot
  }

  /** Keeps the first merge of a pair. */
  add(left: number, right: number, rank: number, joined: number): void {
    const slot = this.slot(left, right)
    if (this.lefts[slot] !== -1) return
    this.lefts[slot] = left
    this.rights[slot] = right
    this.ranks[slot] = rank
    this.joined[slot] = joined
  }

  /** Index of the pair in {@link ranks} and {@link joined}, or -1. */
  find(left: number, right: number): number {
    const slot = this.slot(left, right)
    return this.lefts[slot] === -1 ? -1 : slot
  }
}

/** Binary heap of (rank, position), smallest rank first, then leftmost. */
class CandidateHeap {
  size = 0
  private ranks: Int32Array
  private positions: Int32Array

  constructor(capacity: number) {
    this.ranks = new Int32Array(capacity + 1)
    this.positions = new Int32Array(capacity + 1)
  }

  topRank(): number {
    return this.ranks[0]!
  }

  private before(a: number, b: number): boolean {
    return (
      this.ranks[a]! < this.ranks[b]! || (this.ranks[a] === this.ranks[b] && this.positions[a]! < this.positions[b]!)
    )
  }

  private swap(a: number, b: number): void {
    const [rank, position] = [this.ranks[a]!, this.positions[a]!]
    this.ranks[a] = this.ranks[b]!
    this.positions[a] = this.positions[b]!
    this.ranks[b] = rank
    this.positions[b] = position
  }

  push(rank: number, position: number): void {
    if (this.size === this.ranks.length) this.grow()
    let at = this.size++
    this.ranks[at] = rank
    this.positions[at] = position
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!this.before(at, parent)) break
      this.swap(at, parent)
      at = parent
    }
  }

  /** Removes the first candidate and gives its position. */
  pop(): number {
    const position = this.positions[0]!
    this.size -= 1
    this.swap(0, this.size)
    for (let at = 0; ;) {
      let least = at
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < this.size && this.before(child, least)) least = child
      }
      if (least === at) return position
      this.swap(at, least)
      at = least
    }
  }

  private grow(): void {
    const [ranks, positions] = [this.ranks, this.positions]
    this.ranks = new Int32Array(ranks.length * 2)
    this.positions = new Int32Array(positions.length * 2)
    this.ranks.set(ranks)
    this.positions.set(positions)
  }
}
