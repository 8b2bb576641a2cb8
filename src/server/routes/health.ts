import type { RequestHandler } from 'express'
import type { ModelInfo } from '../../engine/types.js'
import { packageVersion } from '../../version.js'
import type { ServerState } from '../state.js'

/** `GET /health`: what is served, how, and how busy it is. Needs no key, so that orchestrators can probe it. */
export function health(state: ServerState): RequestHandler {
  return (_req, res) => {
    const { config, queue } = state
    const now = state.modelStatus
    const common = { queue_depth: queue.depth, active: queue.active, version: packageVersion }
    const model = config.modelId
    if (state.draining) {
      res.status(503).json({ status: 'shutting_down', model, model_path: config.modelPath, ...common })
    } else if (now.status === 'ok') {
      res.json({ status: 'ok', model, ...describe(now.model.info), ...common })
    } else if (now.status === 'loading') {
      const { phase = null, loadedBytes = 0, totalBytes = 0 } = state.progress() ?? {}
      const progress = { phase, loaded_bytes: loadedBytes, total_bytes: totalBytes }
      res.json({ status: 'loading', model, model_path: config.modelPath, ...progress, ...common })
    } else {
      const message = now.error instanceof Error ? now.error.message : String(now.error)
      res.status(503).json({ status: 'error', message, model, model_path: config.modelPath, ...common })
    }
  }
}

function describe(info: ModelInfo): object {
  return {
    model_path: info.modelPath,
    device: 'cpu',
    // Worded as clients of the API know it; the experts lie in two bits a weight.
    dtype: `${info.dtype} + int8 ternary experts (${info.packedExperts} packed)`,
    attention: info.attention,
    simd: info.isa,
    context_length: info.contextLength,
    load_seconds: Math.round(info.loadSeconds * 1000) / 1000,
  }
}
