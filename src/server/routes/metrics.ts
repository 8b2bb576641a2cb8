import type { RequestHandler } from 'express'
import type { Metrics } from '../metrics.js'

/** `GET /metrics`: the numbers of this server in the text format of Prometheus. */
export function metricsText(metrics: Metrics): RequestHandler {
  return async (_req, res) => {
    const text = await metrics.text()
    // Not res.type(): Express would put its own charset over the one in the content type.
    res.setHeader('Content-Type', metrics.contentType)
    res.end(text)
  }
}
