import type { RequestHandler } from 'express'
import { collectChat, openChat, readChat, streamChat } from '../../openai/chat.js'
import { checkCount, fitWindow } from '../../openai/request.js'
import { recordOf } from '../record.js'
import type { ServerState } from '../state.js'
import { answer, connectionSignal } from './answer.js'

/** `POST /v1/chat/completions`. */
export function chatCompletions(state: ServerState): RequestHandler {
  const { config } = state
  return async (req, res) => {
    const signal = connectionSignal(req, res)
    const { body, form } = openChat(req.body, config)
    const model = state.requireModel()
    const request = readChat(body, form, config)
    checkCount(request.params.messages, model.info.contextLength, config)
    const prompt = await model.prepareChat(request.params, { signal })
    const fitted = fitWindow(request.params, prompt.ids.length, model.info.contextLength, config, 'messages')
    const record = recordOf(res)
    record.promptTokens = prompt.ids.length
    const run = () =>
      record.watch(model.runChat(prompt, { ...request.params, ...fitted }, { signal, onToken: record.onToken }))
    await answer(state, res, signal, {
      stream: request.stream,
      collect: () => collectChat(request, run()),
      chunks: () => streamChat(request, run()),
    })
  }
}
