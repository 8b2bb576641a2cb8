import type { Detokenizer } from './types.js'

/** Bytes that one id stands for; undefined for ids without text. */
export type BytesOf = (id: number) => Uint8Array | undefined

/**
 * Joins the bytes of ids and decodes them as UTF-8, a character at a time: bytes that may still become a character are
 * held. The pieces, joined, are what decoding all bytes at once gives, wherever the stream is cut.
 */
export class StreamDetokenizer implements Detokenizer {
  private held: Buffer = Buffer.alloc(0)

  constructor(private readonly bytesOf: BytesOf) {}

  push(ids: Iterable<number>): string {
    const parts: Uint8Array[] = [this.held]
    for (const id of ids) {
      const bytes = this.bytesOf(id)
      if (bytes !== undefined) parts.push(bytes)
    }
    if (parts.length === 1) return ''
    const bytes = Buffer.concat(parts)
    const whole = bytes.length - unfinished(bytes)
    this.held = bytes.subarray(whole)
    return bytes.toString('utf8', 0, whole)
  }

  end(): string {
    const rest = this.held.toString('utf8')
    this.held = Buffer.alloc(0)
    return rest
  }
}

/**
 * How many bytes at the end are the proper beginning of a UTF-8 sequence (0 to 3). Beginnings that no continuation can
 * make well-formed (overlong forms, surrogates, beyond U+10FFFF) are not held: they are broken already.
 */
function unfinished(bytes: Uint8Array): number {
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const lead = bytes[bytes.length - back]!
    if ((lead & 0xc0) === 0x80) continue
    const length =
      lead >= 0xc2 && lead <= 0xdf ? 2 : lead >= 0xe0 && lead <= 0xef ? 3 : lead >= 0xf0 && lead <= 0xf4 ? 4 : 1
    if (length <= back) return 0
    return back === 1 || canFollow(lead, bytes[bytes.length - back + 1]!) ? back : 0
  }
  return 0
}

/** Whether `second` may follow `lead`; the later bytes of a sequence are any continuation. */
function canFollow(lead: number, second: number): boolean {
  if (lead === 0xe0) return second >= 0xa0
  if (lead === 0xed) return second <= 0x9f
  if (lead === 0xf0) return second >= 0x90
  return lead !== 0xf4 || second <= 0x8f
}
