import type { ToolCall, Usage, WireMessage } from './api.js'

/** One message of a conversation. Siblings (same parent) are branches: edits of a question, other tries of an answer. */
export interface Turn {
  id: string
  parent: string | null
  role: 'user' | 'assistant' | 'tool'
  content: string
  reasoning?: string
  toolCalls?: ToolCall[]
  toolCallId?: string
  /** Milliseconds to the first token, of reasoning, and in all. */
  times?: { first?: number; reasoning?: number; total?: number }
  usage?: Usage
  finish?: string
  error?: string
}

/** A conversation: a tree of turns and the branch that is shown. */
export interface Conversation {
  id: string
  title: string
  created: number
  updated: number
  turns: Record<string, Turn>
  /** Last turn of the branch shown. */
  leaf: string | null
}

/** A fresh random id. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12))
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')
}

export function newConversation(): Conversation {
  const now = Date.now()
  return { id: newId(), title: '', created: now, updated: now, turns: {}, leaf: null }
}

/** Adds a turn below `parent` and shows its branch. */
export function addTurn(c: Conversation, parent: string | null, turn: Omit<Turn, 'id' | 'parent'>): Turn {
  const added: Turn = { ...turn, id: newId(), parent }
  c.turns[added.id] = added
  c.leaf = added.id
  c.updated = Date.now()
  if (!c.title && turn.role === 'user') c.title = turn.content.trim().slice(0, 60).split('\n')[0] ?? ''
  return added
}

/** The turns shown, first to last. */
export function path(c: Conversation, leaf: string | null = c.leaf): Turn[] {
  const out: Turn[] = []
  for (let id = leaf; id !== null;) {
    const turn: Turn | undefined = c.turns[id]
    if (!turn) break
    out.push(turn)
    id = turn.parent
  }
  return out.reverse()
}

/** A turn and its siblings, in the order they were made. */
export function siblings(c: Conversation, turn: Turn): Turn[] {
  return Object.values(c.turns).filter(
    (t) => t.parent === turn.parent && t.role === turn.role && t.toolCallId === turn.toolCallId,
  )
}

/** Shows the branch through `turn`: down to its newest descendants. */
export function showBranch(c: Conversation, turn: Turn): void {
  let leaf = turn.id
  for (;;) {
    const children = Object.values(c.turns).filter((t) => t.parent === leaf)
    const last = children[children.length - 1]
    if (!last) break
    leaf = last.id
  }
  c.leaf = leaf
}

/** Calls of the last answer shown that no tool turn has answered yet. */
export function openCalls(c: Conversation): ToolCall[] {
  const shown = path(c)
  const answered = new Set(shown.flatMap((t) => (t.toolCallId ? [t.toolCallId] : [])))
  const last = shown.findLast((t) => t.role !== 'tool')
  return last?.role === 'assistant' ? (last.toolCalls ?? []).filter((call) => !answered.has(call.id)) : []
}

/** What the server is sent for the branch shown. */
export function wireMessages(c: Conversation, leaf: string | null, system: string): WireMessage[] {
  const out: WireMessage[] = system.trim() ? [{ role: 'system', content: system }] : []
  for (const turn of path(c, leaf)) {
    if (turn.role === 'user') out.push({ role: 'user', content: turn.content })
    else if (turn.role === 'tool')
      out.push({ role: 'tool', content: turn.content, tool_call_id: turn.toolCallId ?? '' })
    else {
      out.push({
        role: 'assistant',
        content: turn.content || null,
        ...(turn.reasoning ? { reasoning_content: turn.reasoning } : {}),
        ...(turn.toolCalls?.length ? { tool_calls: turn.toolCalls } : {}),
      })
    }
  }
  return out
}

/** Reads a conversation from outside; says what is wrong with it. */
export function checkConversation(value: unknown): Conversation {
  const bad = (what: string): never => {
    throw new Error(`not a conversation exported from this page: ${what}`)
  }
  if (typeof value !== 'object' || value === null) bad('not an object')
  const c = value as Partial<Conversation>
  if (typeof c.turns !== 'object' || c.turns === null) bad('it has no turns')
  const turns: Record<string, Turn> = {}
  for (const [id, turn] of Object.entries(c.turns as Record<string, Partial<Turn>>)) {
    if (!/^[0-9a-f]{24}$/.test(id) || turn.id !== id) bad('a turn has no proper id')
    if (turn.role !== 'user' && turn.role !== 'assistant' && turn.role !== 'tool') bad('a turn has no role')
    if (typeof turn.content !== 'string') bad('a turn has no content')
    if (turn.reasoning !== undefined && typeof turn.reasoning !== 'string') bad('a reasoning is not text')
    if (turn.error !== undefined && typeof turn.error !== 'string') bad('an error is not text')
    if (turn.toolCallId !== undefined && typeof turn.toolCallId !== 'string') bad('a tool call id is not text')
    if (turn.toolCalls !== undefined && !(Array.isArray(turn.toolCalls) && turn.toolCalls.every(isCall)))
      bad('a tool call is malformed')
    turns[id] = turn as Turn
  }
  for (const turn of Object.values(turns)) {
    if (turn.parent !== null && !turns[turn.parent]) bad('a turn hangs on one that is not there')
    const seen = new Set<string>()
    for (let t: Turn | undefined = turn; t; t = t.parent === null ? undefined : turns[t.parent]) {
      if (seen.has(t.id)) bad('its turns go in a circle')
      seen.add(t.id)
    }
  }
  const leaf = typeof c.leaf === 'string' && turns[c.leaf] ? c.leaf : (Object.keys(turns).at(-1) ?? null)
  const time = (t: unknown): number => (typeof t === 'number' && Number.isFinite(t) ? t : Date.now())
  const title = typeof c.title === 'string' ? c.title.slice(0, 200) : ''
  return { id: newId(), title, created: time(c.created), updated: time(c.updated), turns, leaf }
}

function isCall(call: unknown): boolean {
  const c = call as Partial<ToolCall> | null
  return typeof c?.id === 'string' && typeof c.function?.name === 'string' && typeof c.function.arguments === 'string'
}
