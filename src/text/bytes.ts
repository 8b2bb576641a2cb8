/**
 * The byte-level alphabet of GPT-2's tokenizer: each byte has a printable character, so that any bytes can be written as a
 * text without spaces or control characters. Printable Latin-1 bytes stand for themselves, the other 68 for U+0100 upward.
 */
const isPrintable = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae

/** Character code of each byte. */
export const BYTE_TO_CHAR: readonly number[] = (() => {
  let next = 0x100
  return Array.from({ length: 256 }, (_, byte) => (isPrintable(byte) ? byte : next++))
})()

/** Byte of each character code, -1 where the character stands for none. */
const CHAR_TO_BYTE: Int16Array = (() => {
  const table = new Int16Array(0x100 + 68).fill(-1)
  BYTE_TO_CHAR.forEach((char, byte) => (table[char] = byte))
  return table
})()

/** The bytes that a token's spelling stands for; a spelling outside the alphabet stands for its own UTF-8. */
export function bytesOfToken(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length)
  for (let i = 0; i < token.length; i++) {
    const byte = CHAR_TO_BYTE[token.charCodeAt(i)] ?? -1
    if (byte < 0) return Buffer.from(token, 'utf8')
    bytes[i] = byte
  }
  return bytes
}
