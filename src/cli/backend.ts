import type { ChatEvent, ChatParams } from '../chat/types.js'
import type { Config } from '../config.js'
import { connect } from './remote.js'
import type { Terminal } from './terminal.js'

/** Something that answers chats. */
export interface ChatBackend {
  /** The model's name, for people. */
  readonly model: string
  chat(params: ChatParams, signal: AbortSignal): AsyncIterable<ChatEvent>
  close(): Promise<void>
}

/** Loads the model in this process, showing how far it is, or connects to a running server where `url` is given. */
export async function openBackend(
  config: Config,
  url: string | undefined,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<ChatBackend> {
  if (url !== undefined) return connect(url, config.apiKey, signal)
  // Only here is the engine needed at all.
  const { loadModel } = await import('./load.js')
  const model = await loadModel(config, terminal, signal)
  return {
    model: config.modelPath,
    chat: (params, chatSignal) => model.chat(params, { signal: chatSignal }),
    close: () => model.dispose(),
  }
}
