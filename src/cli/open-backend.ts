import type { ChatBackend } from './backend.js'
import type { ChatSettings } from './chat-flags.js'
import { connect } from './remote.js'
import type { Terminal } from './terminal.js'

/** Loads the model in this process, showing how far it is, or connects to a running server where `url` is given. */
export async function openBackend(
  { config, isModelNamed, url }: ChatSettings,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<ChatBackend> {
  if (url !== undefined) return connect(url, config.apiKey, signal)
  // Only here is the engine needed at all.
  const { loadModel } = await import('./load.js')
  const { modelAtHand } = await import('./default-model.js')
  const modelPath = isModelNamed ? config.modelPath : await modelAtHand(config, terminal)
  const model = await loadModel({ ...config, modelPath }, terminal, signal)
  return {
    model: modelPath,
    chat: (params, chatSignal) => model.chat(params, { signal: chatSignal }),
    close: () => model.dispose(),
  }
}
