/**
 * Compiled tokenizers in a folder of the caller's: reading a large vocabulary anew takes most of a second, and a start
 * should not. A copy is named after the place of the file it was made from, holds what that file was then, and carries a
 * digest of itself; one that does not fit, or is damaged, is as good as none.
 */
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { endianness } from 'node:os'
import { join } from 'node:path'
import { readRegularFile } from '../regular-file.js'
import type { CompiledTokenizer } from './compiled.js'

/** To be raised whenever what is compiled, or how it is written, changes. */
const VERSION = 1
/** Files below this many bytes are read in a moment anyway. */
const WORTHWHILE = 1 << 20
const DIGEST_BYTES = 32

/** A source file as it is now, and where its copy lies. */
export interface KeptPlace {
  readonly path: string
  readonly identity: string
}

/** What a copy holds: the tokenizer, and whatever else its source says. */
export interface Kept {
  readonly tokenizer: CompiledTokenizer
  readonly rest: unknown
}

interface Head {
  readonly identity: string
  readonly rest: unknown
  readonly normalizer: unknown
  readonly preTokenizer: unknown
  readonly added: CompiledTokenizer['added']
  /** Lengths of the arrays that follow. */
  readonly lengths: readonly [ends: number, byteTokens: number, merges: number, bytes: number]
}

/** The place for the copy of a source file; undefined where there is no such file or no copy is worthwhile. */
export async function placeOf(folder: string, source: string): Promise<KeptPlace | undefined> {
  try {
    const real = await realpath(source)
    const { size, mtimeNs, ino } = await stat(real, { bigint: true })
    if (size < WORTHWHILE) return undefined
    const name = createHash('sha256').update(real).digest('hex').slice(0, 16)
    return {
      path: join(folder, `tokenizer-${name}.bin`),
      identity: `${VERSION} ${endianness()} ${real} ${size} ${mtimeNs} ${ino}`,
    }
  } catch {
    return undefined
  }
}

/** The copy, if it is there, whole, and of the source as it is now. */
export async function readKept(place: KeptPlace): Promise<Kept | undefined> {
  const file = await readRegularFile(place.path).catch(() => undefined)
  if (file === undefined || file.length < DIGEST_BYTES + 4 || !digest(file).equals(file.subarray(0, DIGEST_BYTES)))
    return undefined
  try {
    return parseKept(file, place)
  } catch {
    return undefined
  }
}

function parseKept(file: Buffer, place: KeptPlace): Kept | undefined {
  const start = DIGEST_BYTES + 4
  const headEnd = start + file.readUInt32LE(DIGEST_BYTES)
  const head = JSON.parse(file.toString('utf8', start, headEnd)) as Head
  if (head.identity !== place.identity) return undefined
  // A copy of its own, because the arrays must begin at whole numbers' places.
  const data = new Uint8Array(file.subarray(headEnd)).buffer
  let at = 0
  const numbers = (length: number): Int32Array => {
    at += 4 * length
    return new Int32Array(data, at - 4 * length, length)
  }
  const { normalizer, preTokenizer, added, rest, lengths } = head
  const [ends, byteTokens, merges] = [numbers(lengths[0]), numbers(lengths[1]), numbers(lengths[2])]
  const bytes = new Uint8Array(data, at, lengths[3])
  return { tokenizer: { normalizer, preTokenizer, added, bytes, ends, byteTokens, merges }, rest }
}

/** Keeps a copy, if the source is still what it was and the folder can be written. */
export async function keep(folder: string, source: string, place: KeptPlace, { tokenizer, rest }: Kept): Promise<void> {
  const { normalizer, preTokenizer, added, bytes, ends, byteTokens, merges } = tokenizer
  const lengths = [ends.length, byteTokens.length, merges.length, bytes.length] as const
  const { identity } = place
  const text = JSON.stringify({ identity, rest, normalizer, preTokenizer, added, lengths } satisfies Head)
  const head = Buffer.from(text)
  const length = Buffer.alloc(4)
  length.writeUInt32LE(head.length)
  const views = [ends, byteTokens, merges, bytes].map((a) => Buffer.from(a.buffer, a.byteOffset, a.byteLength))
  const file = Buffer.concat([Buffer.alloc(DIGEST_BYTES), length, head, ...views])
  digest(file).copy(file)
  const temporary = `${place.path}.${randomBytes(6).toString('hex')}.tmp`
  try {
    if ((await placeOf(folder, source))?.identity !== identity) return
    await mkdir(folder, { recursive: true })
    await writeFile(temporary, file)
    await rename(temporary, place.path)
  } catch {
    // Without a copy, the next start takes a moment longer.
    await rm(temporary, { force: true }).catch(() => {})
  }
}

function digest(file: Buffer): Buffer {
  return createHash('sha256').update(file.subarray(DIGEST_BYTES)).digest()
}
