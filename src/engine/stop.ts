/** What a {@link StopFilter} makes of a piece of text. */
export interface StopStep {
  /** Text that can be sent: no part of a stop string, and not the beginning of one. */
  readonly text: string
  /** The stop string that was found, if one was. Text ends before it; what follows is of no interest. */
  readonly stop?: string
}

interface Node {
  /** Next nodes by code unit. */
  readonly next: Map<number, Node>
  /** Where to go on when no next node fits: the longest proper end of this node's text that is in the tree. */
  fail: Node | undefined
  /** Length of this node's text. */
  readonly depth: number
  /** Length of the longest stop string that this node's text ends in; 0 for none. */
  found: number
}

function node(depth: number): Node {
  return { next: new Map(), fail: undefined, depth, found: 0 }
}

/** The Aho-Corasick automaton of the stop strings. */
function automaton(stops: readonly string[]): Node {
  const root = node(0)
  for (const stop of stops) {
    let at = root
    for (let i = 0; i < stop.length; i++) {
      const unit = stop.charCodeAt(i)
      const next = at.next.get(unit) ?? node(at.depth + 1)
      at.next.set(unit, next)
      at = next
    }
    at.found = stop.length
  }
  const queue = [root]
  for (const parent of queue) {
    for (const [unit, child] of parent.next) {
      child.fail = parent.fail === undefined ? root : step(parent.fail, unit)
      child.found = Math.max(child.found, child.fail.found)
      queue.push(child)
    }
  }
  return root
}

function step(from: Node, unit: number): Node {
  let at: Node | undefined = from
  while (at !== undefined) {
    const next = at.next.get(unit)
    if (next !== undefined) return next
    if (at.fail === undefined) return at
    at = at.fail
  }
  return from
}

/**
 * Cuts a text that comes in pieces at the earliest place where a stop string begins, and lets nothing out before it is
 * certain. Takes linear time, however the pieces fall.
 */
export class StopFilter {
  private state: Node
  /** Text that was not sent yet; its end is the state's text. */
  private held = ''
  /** Where the earliest match so far begins in {@link held}, -1 without one, and what it is. */
  private match = -1
  private matched = ''

  /** Empty strings among `stops` are ignored. */
  constructor(stops: readonly string[]) {
    this.state = automaton(stops.filter((stop) => stop !== ''))
  }

  push(text: string): StopStep {
    let end = this.held.length
    this.held += text
    for (let i = 0; i < text.length; i++) {
      this.state = step(this.state, text.charCodeAt(i))
      end += 1
      if (this.state.found > 0) {
        const start = end - this.state.found
        if (this.match < 0 || start < this.match) {
          this.match = start
          this.matched = this.held.slice(start, end)
        }
      }
      // A longer match that begins earlier may still come about as long as the state reaches back before this one.
      if (this.match >= 0 && end - this.state.depth >= this.match) return this.stop()
    }
    const safe = end - this.state.depth
    if (safe === 0) return { text: '' }
    const out = this.held.slice(0, safe)
    this.held = this.held.slice(safe)
    if (this.match >= 0) this.match -= safe
    return { text: out }
  }

  /** The text is over: what was held back, up to a match if there was one. */
  end(): StopStep {
    if (this.match >= 0) return this.stop()
    const text = this.held
    this.held = ''
    return { text }
  }

  private stop(): StopStep {
    const text = this.held.slice(0, this.match)
    this.held = ''
    return { text, stop: this.matched }
  }
}
