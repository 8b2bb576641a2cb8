import type { RequestHandler } from 'express'
import type { Logger } from '../logger.js'

/** One line for each request when it is over; never what was asked or answered. */
export function accessLog(logger: Logger): RequestHandler {
  return (req, res, next) => {
    const start = performance.now()
    const { method, path } = req
    res.once('close', () => {
      const ms = Math.round(performance.now() - start)
      const fields = {
        id: res.locals['requestId'] as string,
        method,
        path: path.slice(0, 200),
        status: res.statusCode,
        ms,
      }
      logger.info(fields, res.writableFinished ? 'request' : 'request aborted by the client')
    })
    next()
  }
}
