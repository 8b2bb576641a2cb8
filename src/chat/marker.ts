/** Length of the longest end of `text` that is a proper beginning of `marker`: what may still become the marker. */
export function partialLength(text: string, marker: string): number {
  for (let length = Math.min(marker.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(marker.slice(0, length))) return length
  }
  return 0
}

/** Finds a marker in a text that comes in pieces. */
export class MarkerSearch {
  private held = ''

  constructor(private readonly marker: string) {}

  /**
   * What is known of the text so far: what lies before the marker, and, once the marker is whole, what follows it. A
   * possible beginning of the marker is kept for the next piece.
   */
  push(text: string): { before: string; after?: string } {
    const all = this.held + text
    const at = all.indexOf(this.marker)
    if (at >= 0) {
      this.held = ''
      return { before: all.slice(0, at), after: all.slice(at + this.marker.length) }
    }
    const keep = partialLength(all, this.marker)
    this.held = all.slice(all.length - keep)
    return { before: all.slice(0, all.length - keep) }
  }

  /** What is kept when the text ends. */
  end(): string {
    const rest = this.held
    this.held = ''
    return rest
  }
}
