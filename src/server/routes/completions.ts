import type { RequestHandler } from 'express'
import { collectCompletion, openCompletion, readCompletion, streamCompletion } from '../../openai/completions.js'
import { fitWindow } from '../../openai/request.js'
import { recordOf } from '../record.js'
import type { ServerState } from '../state.js'
import { answer, connectionSignal } from './answer.js'

/** `POST /v1/completions`. */
export function completions(state: ServerState): RequestHandler {
  const { config } = state
  return async (req, res) => {
    const signal = connectionSignal(req, res)
    const { body, form } = openCompletion(req.body, config)
    const model = state.requireModel()
    const request = readCompletion(body, form, config, model.info.vocabSize)
    const { prompt } = request
    const ids = typeof prompt === 'string' ? await model.tokenizePrompt(prompt, { signal }) : prompt
    const params = fitWindow(request.params, ids.length, model.info.contextLength, config, 'prompt')
    const record = recordOf(res)
    record.promptTokens = ids.length
    const run = () => record.watch(model.runCompletion(ids, params, { signal, onToken: record.onToken }))
    await answer(state, res, signal, {
      stream: request.stream,
      collect: () => collectCompletion(request, run()),
      chunks: () => streamCompletion(request, run()),
    })
  }
}
