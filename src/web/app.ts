import { health } from './api.js'
import { Attachments } from './attachments.js'
import { byId, h } from './dom.js'
import { requestBody, runTurn } from './run.js'
import { bindSettings } from './settings.js'
import { Sidebar } from './sidebar.js'
import { loadSettings, recall, remember, Store } from './store.js'
import { addTurn, newConversation, openCalls, path, showBranch, type Conversation, type Turn } from './tree.js'
import { turnView, type TurnState } from './view.js'

const EXAMPLES = ['What is 17 * 23?', 'Say hello in French.', 'What is the capital of Kenya?']

const PHASES: Readonly<Record<string, string>> = { download: 'being downloaded', convert: 'being packed' }

const settings = loadSettings()
const store = await Store.open()
const messages = byId('messages')
const draft = byId<HTMLTextAreaElement>('draft')
const attachments = new Attachments()
let conversation: Conversation = newConversation()
/** The answer being written, with what stops it. */
let live: { turn: Turn; conversation: Conversation; stop: AbortController } | undefined
let ready = false
let contextLength: number | undefined

const sidebar = new Sidebar(store, {
  open: (c) => open(c),
  removed: (c) => {
    if (live?.conversation.id === c.id) live.stop.abort()
    if (c.id === conversation.id) open(newConversation())
  },
})

function open(c: Conversation): void {
  conversation = c
  remember('current', c.id)
  draft.value = recall(`draft.${c.id}`)
  fitDraft()
  document.body.classList.remove('sidebar-open')
  render()
  messages.scrollTop = messages.scrollHeight
  draft.focus()
}

async function save(c: Conversation): Promise<void> {
  sidebar.upsert(c, conversation.id)
  try {
    await store.put(c)
  } catch (error) {
    banner(`This conversation could not be kept: ${(error as Error).message}`, true)
  }
}

// ---- showing ----

function state(): TurnState {
  return {
    conversation,
    live: live?.turn,
    open: new Set(live ? [] : openCalls(conversation).map((call) => call.id)),
    actions: {
      regenerate: (turn) => void answer(turn.parent),
      edit: (turn, content) => {
        if (live) return
        const edited = addTurn(conversation, turn.parent, { role: 'user', content })
        void answer(edited.id)
      },
      show: (turn) => {
        if (live?.conversation.id === conversation.id) return
        showBranch(conversation, turn)
        void save(conversation)
        render()
      },
      answer: (results) => {
        let parent = conversation.leaf
        for (const [toolCallId, content] of results)
          parent = addTurn(conversation, parent, { role: 'tool', content, toolCallId }).id
        void answer(parent)
        draft.focus()
      },
    },
  }
}

function render(): void {
  const turns = path(conversation)
  const current = state()
  if (turns.length === 0) messages.replaceChildren(welcome())
  else messages.replaceChildren(...turns.map((turn) => turnView(turn, current)))
  sidebar.mark(conversation.id)
  const usage = turns.findLast((t) => t.usage)?.usage
  byId('context').replaceChildren(
    ...(usage
      ? [`${usage.total_tokens}${contextLength ? ` of ${contextLength}` : ''}`, h('span', {}, ' tokens of context')]
      : []),
  )
  byId('stop').hidden = live === undefined
  byId<HTMLButtonElement>('send').disabled = live !== undefined || !ready
}

function welcome(): HTMLElement {
  const buttons = EXAMPLES.map((text) => h('button', { type: 'button', onclick: () => useExample(text) }, text))
  return h(
    'div',
    { class: 'empty' },
    h('p', {}, 'Ask anything. Everything runs on this machine.'),
    h('div', { class: 'row' }, ...buttons),
  )
}

function useExample(text: string): void {
  draft.value = text
  fitDraft()
  draft.focus()
}

/** Redraws the answer being written at most once a frame, and no more often than drawing it can keep up with. */
let drawing = false
function drawLive(): void {
  if (drawing || !live) return
  drawing = true
  requestAnimationFrame(() => {
    const began = performance.now()
    if (live && live.conversation.id === conversation.id) {
      const atEnd = messages.scrollHeight - messages.scrollTop - messages.clientHeight < 80
      const old = messages.querySelector<HTMLElement>(`[data-turn="${live.turn.id}"]`)
      const trace = old?.querySelector('.trace')
      const followed = !trace || trace.scrollHeight - trace.scrollTop - trace.clientHeight < 40
      const fresh = turnView(live.turn, state())
      if (old) old.replaceWith(fresh)
      const [pane, newPane] = [old?.querySelector('details'), fresh.querySelector('details')]
      // A pane keeps being open or shut as the reader left it, until the thinking ends and it folds.
      if (pane && newPane?.open) newPane.open = pane.open
      const newTrace = fresh.querySelector('.trace')
      if (newTrace) newTrace.scrollTop = followed ? newTrace.scrollHeight : (trace?.scrollTop ?? 0)
      if (atEnd) messages.scrollTop = messages.scrollHeight
    }
    setTimeout(
      () => {
        drawing = false
        if (live) drawLiveIfChanged()
      },
      3 * (performance.now() - began),
    )
  })
}

let changed = false
function drawLiveIfChanged(): void {
  if (!changed) return
  changed = false
  drawLive()
}

// ---- asking ----

async function answer(parent: string | null): Promise<void> {
  if (live) return
  const c = conversation
  const turn = addTurn(c, parent, { role: 'assistant', content: '' })
  const stop = new AbortController()
  live = { turn, conversation: c, stop }
  render()
  messages.scrollTop = messages.scrollHeight
  await save(c)
  try {
    const body = requestBody(c, parent, settings)
    await runTurn(turn, body, settings.apiKey.trim(), stop.signal, () => {
      changed = true
      drawLiveIfChanged()
    })
  } catch (error) {
    turn.error = (error as Error).message
  }
  if (stop.signal.aborted && !turn.content && !turn.reasoning) turn.error = 'Stopped before the first word.'
  live = undefined
  byId('announce').textContent = turn.error ?? 'The answer is complete.'
  const atEnd = messages.scrollHeight - messages.scrollTop - messages.clientHeight < 120
  if (c.id === conversation.id) render()
  else sidebar.mark(conversation.id)
  if (atEnd) messages.scrollTop = messages.scrollHeight
  byId('stop').hidden = true
  await save(c)
}

function send(): void {
  const text = attachments.prefix() + draft.value.trim()
  if (!text.trim() || live || !ready) return
  draft.value = ''
  remember(`draft.${conversation.id}`, '')
  attachments.clear()
  fitDraft()
  const turn = addTurn(conversation, conversation.leaf, { role: 'user', content: text })
  void answer(turn.id)
}

// ---- the composer ----

function fitDraft(): void {
  draft.style.height = 'auto'
  draft.style.height = `${draft.scrollHeight + 2}px`
}

draft.addEventListener('input', () => {
  remember(`draft.${conversation.id}`, draft.value)
  fitDraft()
})
// The keyboard of a touch screen has no Shift+Enter: there Enter starts a new line, and the button sends.
const touch = matchMedia('(pointer: coarse)').matches
if (touch) draft.placeholder = 'Ask something.'
draft.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !touch && !event.shiftKey && !event.isComposing) {
    event.preventDefault()
    send()
  }
})
byId('composer').addEventListener('submit', (event) => {
  event.preventDefault()
  send()
})
byId('stop').addEventListener('click', () => live?.stop.abort())
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && live && !document.querySelector('dialog[open]')) live.stop.abort()
})
byId('new-chat').addEventListener('click', () => open(newConversation()))
byId('open-sidebar').addEventListener('click', () => document.body.classList.add('sidebar-open'))
byId('close-sidebar').addEventListener('click', () => document.body.classList.remove('sidebar-open'))
attachments.bind((problem) => banner(problem, true))

// ---- the server's state ----

function banner(text: string, bad = false, progress?: { value: number; max: number }): void {
  const element = byId('banner')
  element.hidden = text === ''
  element.classList.toggle('bad', bad)
  element.replaceChildren(
    text,
    progress ? h('progress', { value: progress.value, max: progress.max, 'aria-label': 'Loading' }) : '',
  )
}

async function watchServer(): Promise<void> {
  // Whether the banner speaks of the server's state, and so is to go away with it.
  let ours = false
  for (;;) {
    try {
      const now = await health()
      contextLength = now.context_length
      byId('model').textContent = now.model ?? 'Maple'
      document.title = now.model ?? 'Maple'
      ready = now.status === 'ok'
      if (now.status === 'error') banner(now.message ?? 'The model could not be loaded.', true)
      else if (now.status === 'loading') {
        const { loaded_bytes: value = 0, total_bytes: max = 0 } = now
        const share = max > 0 ? ` ${Math.floor((100 * value) / max)} %` : ''
        banner(
          `The model is ${PHASES[now.phase ?? ''] ?? 'loading'}…${share}`,
          false,
          max > 0 ? { value, max } : undefined,
        )
      } else if (now.status !== 'ok') banner('The server is shutting down.', true)
      else if (ours) banner('')
      ours = now.status !== 'ok'
    } catch {
      ready = false
      ours = true
      banner('The server cannot be reached. What you write is kept; it is tried again.', true)
    }
    byId<HTMLButtonElement>('send').disabled = live !== undefined || !ready
    await new Promise((resolve) => setTimeout(resolve, ready ? 5000 : 700))
  }
}

// ---- start ----

function applyTheme(): void {
  if (settings.theme === 'auto') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = settings.theme
}
bindSettings(settings, applyTheme)
applyTheme()
await sidebar.load()
open(sidebar.find(recall('current')) ?? newConversation())
if (!store.lasting) banner('This browser keeps nothing for this page: conversations last until it is closed.', true)
void watchServer()
