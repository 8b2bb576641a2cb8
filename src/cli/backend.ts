import type { ChatEvent, ChatParams } from '../chat/types.js'

/** Something that answers chats. */
export interface ChatBackend {
  /** The model's name, for people. */
  readonly model: string
  chat(params: ChatParams, signal: AbortSignal): AsyncIterable<ChatEvent>
  close(): Promise<void>
}
