import type { Conversation } from './tree.js'

/** How answers are asked for; kept in the browser. Empty text means the server's default. */
export interface Settings {
  system: string
  thinking: boolean
  temperature: string
  topP: string
  topK: string
  maxTokens: string
  repetitionPenalty: string
  seed: string
  stop: string
  tools: string
  apiKey: string
  theme: 'auto' | 'light' | 'dark'
}

export const DEFAULT_SETTINGS: Settings = {
  ...{
    system: '',
    thinking: true,
    temperature: '',
    topP: '',
    topK: '',
    maxTokens: '',
    repetitionPenalty: '',
    seed: '',
  },
  ...{ stop: '', tools: '', apiKey: '', theme: 'auto' },
}

/** Small things in `localStorage`, which may be missing or full: then they last as long as the page. */
const memory = new Map<string, string>()

export function remember(key: string, value: string): void {
  memory.set(key, value)
  try {
    localStorage.setItem(`maple.${key}`, value)
  } catch {
    // Kept in memory only.
  }
}

export function recall(key: string): string {
  try {
    return localStorage.getItem(`maple.${key}`) ?? memory.get(key) ?? ''
  } catch {
    return memory.get(key) ?? ''
  }
}

export function loadSettings(): Settings {
  try {
    return { ...DEFAULT_SETTINGS, ...(JSON.parse(recall('settings') || '{}') as Partial<Settings>) }
  } catch {
    return { ...DEFAULT_SETTINGS }
  }
}

export function saveSettings(settings: Settings): void {
  remember('settings', JSON.stringify(settings))
}

/** Conversations in IndexedDB. */
export class Store {
  private constructor(private readonly db: IDBDatabase | undefined) {}

  /** Opens the browser's store; without one, conversations last as long as the page. */
  static async open(): Promise<Store> {
    const db = await new Promise<IDBDatabase | undefined>((resolve) => {
      try {
        const request = indexedDB.open('maple', 1)
        request.onupgradeneeded = () => request.result.createObjectStore('conversations', { keyPath: 'id' })
        request.onsuccess = () => resolve(request.result)
        request.onerror = () => resolve(undefined)
      } catch {
        resolve(undefined)
      }
    })
    return new Store(db)
  }

  get lasting(): boolean {
    return this.db !== undefined
  }

  async all(): Promise<Conversation[]> {
    return this.db ? await this.run<Conversation[]>('readonly', (s) => s.getAll()) : []
  }

  async put(conversation: Conversation): Promise<void> {
    if (this.db) await this.run('readwrite', (s) => s.put(structuredClone(conversation)))
  }

  async remove(id: string): Promise<void> {
    if (this.db) await this.run('readwrite', (s) => s.delete(id))
  }

  private run<T>(mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest): Promise<T> {
    return new Promise((resolve, reject) => {
      const transaction = (this.db as IDBDatabase).transaction('conversations', mode)
      const request = act(transaction.objectStore('conversations'))
      transaction.oncomplete = () => resolve(request.result as T)
      transaction.onabort = transaction.onerror = () =>
        reject(transaction.error ?? new Error('the browser could not store it'))
    })
  }
}
