import type { ErrorRequestHandler, RequestHandler } from 'express'
import { ApiError, invalidRequest, toApiError } from '../../wire/errors.js'
import type { Logger } from '../logger.js'
import { recordOf } from '../record.js'
import type { PathInfo } from '../routes/route.js'

/** 404 for every path that no route took. */
export const notFound: RequestHandler = (req) => {
  throw new ApiError(404, `Unknown request URL: ${req.method} ${req.path.slice(0, 200)}`, { code: 'unknown_url' })
}

/**
 * The last middleware: every error of a request becomes the shape its path asks for, and those of our own go to the log.
 * `lookup` knows the form that the errors of a path have.
 */
export function errorHandler(logger: Logger, lookup: (path: string) => PathInfo): ErrorRequestHandler {
  return (thrown: unknown, req, res, _next) => {
    if (req.socket.destroyed) {
      // Nobody is there to be told; most likely this is the reason why the work was cancelled.
      res.destroy()
      return
    }
    const error = thrown instanceof URIError ? invalidRequest('The URL is not encoded validly.') : toApiError(thrown)
    const record = recordOf(res)
    record.fail(error)
    if (error.status >= 500) {
      const level = error.status === 500 ? 'error' : 'warn'
      logger[level]({ id: record.id, err: error.cause ?? error }, error.message)
    }
    if (res.headersSent) return void res.destroy()
    const { status, headers, body } = lookup(req.path).errors.render(error, record.id)
    res.status(status).set(headers).json(body)
  }
}
