import type { RequestHandler } from 'express'
import { collectAnswer } from '../../chat/collect.js'
import type { ChatEvent } from '../../chat/types.js'
import type {
  AnswerOperation,
  CountOperation,
  Endpoint,
  ModelBody,
  PlainOperation,
  Protocol,
  Work,
} from '../../protocols/protocol.js'
import { checkCount, fitWindow, readModel } from '../../wire/limits.js'
import type { Validator } from '../../wire/schema.js'
import type { ServedModel } from '../model.js'
import { recordOf, type RequestRecord } from '../record.js'
import type { ServerState } from '../state.js'
import { answer, connectionSignal } from './answer.js'
import type { Route } from './route.js'

/** The routes of a protocol. `body` reads the bodies of its POSTs. */
export function protocolRoutes(state: ServerState, protocol: Protocol, body: RequestHandler): readonly Route[] {
  const { errors, keyHeader, endpoints } = protocol
  // Express takes the first path that fits: those without a parameter come before those with one.
  const ordered = [...endpoints].sort((a, b) => Number(a.path.includes('{')) - Number(b.path.includes('{')))
  return ordered.map((endpoint) => {
    const { path, post, get, delete: remove } = endpoint
    return {
      path: path.replace(/\{(\w+)\}/g, ':$1'),
      name: path,
      errors,
      keyHeader,
      get: get && plain(get),
      post: post && [body, post.kind === 'answer' ? generate(state, endpoint, post) : count(state, endpoint, post)],
      delete: remove && plain(remove),
    }
  })
}

function plain(operation: PlainOperation): RequestHandler {
  return (req, res) => {
    res.json(operation.reply(req.params as Record<string, string>))
  }
}

/** Types are judged before the model is looked at, values after. */
function read<T>(state: ServerState, operation: AnswerOperation | CountOperation, body: unknown) {
  const { config } = state
  const request: Validator<ModelBody> = operation.request
  request.shape(body)
  const name = readModel(body.model, config)
  const model = state.requireModel()
  request.rules(body)
  return {
    model,
    reading: operation.read(body, { defaults: config, model: name, vocabSize: model.info.vocabSize }) as T,
  }
}

function count(state: ServerState, { promptField }: Endpoint, operation: CountOperation): RequestHandler {
  return async (req, res) => {
    const signal = connectionSignal(req, res)
    const { model, reading } = read<ReturnType<CountOperation['read']>>(state, operation, req.body)
    checkCount(reading.messages, model.info.contextLength, state.config, promptField)
    const { ids } = await model.prepareChat(reading, { signal })
    recordOf(res).promptTokens = ids.length
    res.json(operation.reply(ids.length))
  }
}

function generate(state: ServerState, endpoint: Endpoint, operation: AnswerOperation): RequestHandler {
  return async (req, res) => {
    const signal = connectionSignal(req, res)
    const { model, reading } = read<ReturnType<AnswerOperation['read']>>(state, operation, req.body)
    const record = recordOf(res)
    const { tokens, run } = await prepare(state, endpoint.promptField, model, reading.work, signal, record)
    record.promptTokens = tokens
    for (const note of reading.notes ?? []) state.noteOnce(note)
    const form = reading.answer({ tokens })
    await answer(state, res, signal, {
      stream: reading.stream ? form.stream : undefined,
      events: () => record.watch(run()),
      collect: async (events) => form.whole(await collectAnswer(events)),
    })
  }
}

/** Encodes what the model is asked, and refuses what does not fit. */
async function prepare(
  { config }: ServerState,
  promptField: string,
  model: ServedModel,
  work: Work,
  signal: AbortSignal,
  { onToken }: RequestRecord,
): Promise<{ tokens: number; run: () => AsyncIterable<ChatEvent> }> {
  const window = model.info.contextLength
  if (work.kind === 'raw') {
    const { prompt } = work
    const ids = typeof prompt === 'string' ? await model.tokenizePrompt(prompt, { signal }) : prompt
    const params = fitWindow(work.params, ids.length, window, config, promptField)
    return { tokens: ids.length, run: () => model.runCompletion(ids, params, { signal, onToken }) }
  }
  checkCount(work.params.messages, window, config, promptField)
  const prompt = await model.prepareChat(work.params, { signal })
  const params = { ...work.params, ...fitWindow(work.params, prompt.ids.length, window, config, promptField) }
  return { tokens: prompt.ids.length, run: () => model.runChat(prompt, params, { signal, onToken }) }
}
