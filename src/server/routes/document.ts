import type { RequestHandler } from 'express'
import { createDocument } from '../openapi/document.js'
import { packageVersion } from '../../version.js'
import type { ServerState } from '../state.js'

/** `GET /openapi.json`: the API in OpenAPI 3.1, with this server's defaults. */
export function apiDocument(state: ServerState): RequestHandler {
  const { config } = state
  const secured = config.apiKey !== undefined
  return (req, res) => {
    const now = state.modelStatus
    const vocabSize = now.status === 'ok' ? now.model.info.vocabSize : undefined
    res.json(createDocument({ version: packageVersion, baseUrl: req.baseUrl, secured, defaults: config, vocabSize }))
  }
}
