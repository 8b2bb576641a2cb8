import type { RequestHandler } from 'express'
import { modelNotFound } from '../../wire/errors.js'
import type { ServerState } from '../state.js'

/** One entry of `GET /v1/models`. */
export interface WireModel {
  readonly id: string
  readonly object: 'model'
  readonly created: number
  readonly owned_by: string
}

function entry(state: ServerState): WireModel {
  return { id: state.config.modelId, object: 'model', created: state.startedAt, owned_by: 'deepgrove' }
}

/** `GET /v1/models`: a list of the one model. */
export function listModels(state: ServerState): RequestHandler {
  return (_req, res) => {
    res.json({ object: 'list', data: [entry(state)] })
  }
}

/** `GET /v1/models/{id}`: the one model, whatever the id unless the server is strict. Ids may hold slashes. */
export function getModel(state: ServerState): RequestHandler {
  return (req, res) => {
    const id = [req.params['id'] ?? []].flat().join('/').replace(/\/$/, '')
    if (state.config.strictModel && id !== state.config.modelId) throw modelNotFound(id)
    res.json(entry(state))
  }
}
