import { button, byId, download, h } from './dom.js'
import type { Store } from './store.js'
import { checkConversation, type Conversation } from './tree.js'

/** The list of conversations: search, rename, delete, export, import. */
export class Sidebar {
  private list: Conversation[] = []
  private current = ''

  constructor(
    private readonly store: Store,
    private readonly on: { open(c: Conversation): void; removed(c: Conversation): void },
  ) {
    const file = byId<HTMLInputElement>('import-file')
    byId('search').addEventListener('input', () => this.render())
    byId('export-all').addEventListener('click', () => this.exportAll(this.list, 'maple-conversations.json'))
    byId('import').addEventListener('click', () => file.click())
    file.addEventListener('change', () => {
      const chosen = file.files?.[0]
      file.value = ''
      if (chosen) void this.import(chosen)
    })
  }

  async load(): Promise<void> {
    this.list = await this.store.all()
    this.render()
  }

  find(id: string): Conversation | undefined {
    return this.list.find((c) => c.id === id)
  }

  /** Shows a conversation that is new or has changed. */
  upsert(c: Conversation, current: string): void {
    if (!this.list.some((other) => other.id === c.id)) this.list.push(c)
    this.current = current
    this.render()
  }

  mark(current: string): void {
    if (current === this.current) return
    this.current = current
    this.render()
  }

  private render(): void {
    const wanted = byId<HTMLInputElement>('search').value.trim().toLowerCase()
    const shown = this.list.filter((c) => !wanted || matches(c, wanted)).sort((a, b) => b.updated - a.updated)
    byId('conversations').replaceChildren(...shown.map((c) => this.item(c)))
  }

  private item(c: Conversation): HTMLElement {
    const title = c.title || 'New chat'
    const open = button(title, () => this.on.open(c), {
      class: 'open',
      'aria-current': c.id === this.current ? 'true' : undefined,
    })
    const item = h('li', { class: c.id === this.current ? 'current' : undefined }, open)
    item.append(
      button('✎', () => this.rename(item, c), { name: `Rename “${title}”` }),
      button('⤓', () => this.exportAll([c], `maple-${c.id}.json`), { name: `Export “${title}”` }),
      button('✕', () => void this.remove(c), { name: `Delete “${title}”` }),
    )
    return item
  }

  private rename(item: HTMLElement, c: Conversation): void {
    const field = h('input', { 'aria-label': 'Name of the conversation', value: c.title })
    let done = false
    const finish = (keep: boolean): void => {
      if (done) return
      done = true
      if (keep && field.value.trim()) {
        c.title = field.value.trim().slice(0, 200)
        void this.store.put(c)
      }
      this.render()
    }
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') finish(true)
      if (event.key === 'Escape') finish(false)
    })
    field.addEventListener('blur', () => finish(true))
    item.replaceChildren(field)
    field.select()
  }

  private async remove(c: Conversation): Promise<void> {
    if (!confirm(`Delete “${c.title || 'New chat'}”?`)) return
    this.list = this.list.filter((other) => other.id !== c.id)
    await this.store.remove(c.id)
    this.render()
    this.on.removed(c)
  }

  private exportAll(list: Conversation[], name: string): void {
    download(
      name,
      'application/json',
      JSON.stringify({ format: 'maple-conversations', version: 1, conversations: list }, null, 1),
    )
  }

  private async import(file: File): Promise<void> {
    try {
      const data = JSON.parse(await file.text()) as { conversations?: unknown[] }
      if (!Array.isArray(data.conversations)) throw new Error('not a file exported from this page')
      const added = data.conversations.map(checkConversation)
      for (const c of added) await this.store.put(c)
      this.list.push(...added)
      this.render()
      if (added[0]) this.on.open(added[0])
    } catch (error) {
      alert(`${file.name} could not be imported: ${(error as Error).message}`)
    }
  }
}

function matches(c: Conversation, wanted: string): boolean {
  return (
    c.title.toLowerCase().includes(wanted) ||
    Object.values(c.turns).some((t) => t.content.toLowerCase().includes(wanted))
  )
}
