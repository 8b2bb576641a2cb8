import fc from 'fast-check'

/** A text made of these fragments, and ways to cut it into pieces. */
export function fragments(words: readonly string[]): fc.Arbitrary<string> {
  return fc
    .array(fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...words) }, fc.string({ maxLength: 3 })), {
      maxLength: 16,
    })
    .map((parts) => parts.join(''))
}

/** Random cuts, for {@link cutAt}. */
export const cuts = fc.array(fc.nat(), { maxLength: 12 })

/** Cuts a list or a text at positions taken modulo its length. */
export function cutAt<T extends string | readonly unknown[]>(whole: T, positions: readonly number[]): T[] {
  const at = positions.map((position) => position % (whole.length + 1)).sort((a, b) => a - b)
  return [0, ...at].map((start, i) => whole.slice(start, at[i] ?? whole.length) as T)
}
