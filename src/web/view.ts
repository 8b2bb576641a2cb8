import { button, copyButton, h } from './dom.js'
import { renderMarkdown } from './markdown.js'
import { siblings, type Conversation, type Turn } from './tree.js'

/** What a person can do with a turn. */
export interface TurnActions {
  regenerate(turn: Turn): void
  edit(turn: Turn, content: string): void
  show(turn: Turn): void
  /** Answers the open tool calls by hand: results by call id. */
  answer(results: Map<string, string>): void
}

export interface TurnState {
  conversation: Conversation
  /** The turn that is being written right now. */
  live: Turn | undefined
  /** Ids of tool calls that wait for a result. */
  open: ReadonlySet<string>
  actions: TurnActions
}

/** A turn as an element. */
export function turnView(turn: Turn, state: TurnState): HTMLElement {
  const article = h('article', { class: turn.role, 'data-turn': turn.id, 'aria-label': LABEL[turn.role] })
  article.append(h('h2', {}, LABEL[turn.role]))
  if (turn.role === 'assistant') assistant(article, turn, state)
  else if (turn.role === 'tool')
    article.append(h('div', { class: 'call' }, h('pre', { tabindex: 0 }, pretty(turn.content))))
  else article.append(h('div', { class: 'body' }, turn.content))
  if (state.live?.id !== turn.id && turn.role !== 'tool') article.append(controls(article, turn, state))
  return article
}

const LABEL = { user: 'You', assistant: 'Maple', tool: 'Tool result' } as const

function assistant(article: HTMLElement, turn: Turn, state: TurnState): void {
  const live = state.live?.id === turn.id
  if (turn.reasoning) {
    const thinking = live && !turn.content && !turn.toolCalls?.length
    const pane = h(
      'details',
      { class: 'reasoning', open: thinking },
      h('summary', {}, thinking ? 'Thinking…' : thought(turn)),
      h('div', { class: 'trace' }, turn.reasoning),
    )
    article.append(pane)
  }
  const body = h('div', { class: 'body' })
  if (turn.content) body.append(renderMarkdown(turn.content))
  else if (live && !turn.reasoning) body.append(h('p', { class: 'waiting' }, 'Waiting for the first word…'))
  article.append(body)
  for (const call of turn.toolCalls ?? []) {
    article.append(
      h(
        'div',
        { class: 'call' },
        h('h3', {}, `Tool call: ${call.function.name}`),
        h('pre', { tabindex: 0 }, pretty(call.function.arguments)),
      ),
    )
  }
  if (!live && turn.toolCalls?.some((call) => state.open.has(call.id))) article.append(answerForm(turn, state))
  if (turn.finish === 'length')
    body.append(
      h('p', { class: 'problem' }, 'Cut at the token limit. Raise “Most tokens” in the settings for a longer answer.'),
    )
  if (turn.error) article.append(h('p', { class: 'problem', role: 'alert' }, turn.error))
}

function answerForm(turn: Turn, state: TurnState): HTMLElement {
  const fields = new Map<string, HTMLTextAreaElement>()
  const form = h('form', {
    class: 'call',
    onsubmit: (event) => {
      event.preventDefault()
      state.actions.answer(new Map(Array.from(fields, ([id, field]) => [id, field.value])))
    },
  })
  for (const call of turn.toolCalls ?? []) {
    if (!state.open.has(call.id)) continue
    const field = h('textarea', {
      rows: 2,
      'aria-label': `Result of ${call.function.name}`,
      placeholder: `Result of ${call.function.name}`,
    })
    fields.set(call.id, field)
    form.append(field)
  }
  form.append(
    h('div', { class: 'row' }, h('span', { class: 'space' }), h('button', { class: 'primary' }, 'Send result')),
  )
  return form
}

function controls(article: HTMLElement, turn: Turn, state: TurnState): HTMLElement {
  const row = h('div', { class: 'tools-row' })
  const all = siblings(state.conversation, turn)
  if (all.length > 1) {
    const at = all.findIndex((t) => t.id === turn.id)
    const go = (step: number) => () => {
      const other = all[at + step]
      if (other) state.actions.show(other)
    }
    row.append(
      button('‹', go(-1), { name: 'Previous version', disabled: at === 0 }),
      `${at + 1} / ${all.length}`,
      button('›', go(1), { name: 'Next version', disabled: at === all.length - 1 }),
    )
  }
  row.append(copyButton(() => turn.content))
  if (turn.role === 'assistant') row.append(button('Regenerate', () => state.actions.regenerate(turn)))
  else row.append(button('Edit', () => editInPlace(article, turn, state)))
  const stats = statistics(turn)
  if (stats) row.append(h('span', { class: 'stats' }, stats))
  return row
}

function editInPlace(article: HTMLElement, turn: Turn, state: TurnState): void {
  const field = h('textarea', { rows: 4, 'aria-label': 'Edit the message' })
  field.value = turn.content
  const before = [...article.childNodes]
  const form = h(
    'form',
    {
      onsubmit: (event) => {
        event.preventDefault()
        if (field.value.trim()) state.actions.edit(turn, field.value)
      },
    },
    field,
    h(
      'div',
      { class: 'row' },
      h('span', { class: 'space' }),
      button('Cancel', () => article.replaceChildren(...before)),
      h('button', { class: 'primary' }, 'Send'),
    ),
  )
  article.replaceChildren(form)
  field.focus()
}

function thought(turn: Turn): string {
  const seconds = turn.times?.reasoning === undefined ? '' : ` for ${(turn.times.reasoning / 1000).toFixed(1)} s`
  const tokens = turn.usage?.completion_tokens_details?.reasoning_tokens
  return `Thought${seconds}${tokens ? ` · ${tokens} ${tokens === 1 ? 'token' : 'tokens'}` : ''}`
}

/** Milliseconds from the first piece to the end; in fewer the pieces came together, which says nothing of the speed. */
const SHORTEST_SPAN = 20

function statistics(turn: Turn): string {
  const { times, usage } = turn
  const parts: string[] = []
  if (times?.first !== undefined) parts.push(`first token ${(times.first / 1000).toFixed(2)} s`)
  const span = (times?.total ?? 0) - (times?.first ?? Infinity)
  if (usage && usage.completion_tokens > 1 && span >= SHORTEST_SPAN) {
    const rate = (1000 * (usage.completion_tokens - 1)) / span
    parts.push(`${rate.toFixed(rate < 100 ? 1 : 0)} tokens/s`)
  }
  if (usage) parts.push(`${usage.prompt_tokens} + ${usage.completion_tokens} tokens`)
  return parts.join(' · ')
}

function pretty(text: string): string {
  // Only layout: numbers too large for JavaScript would change, so such text stays as it is.
  if (/\d{16}/.test(text)) return text
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}
