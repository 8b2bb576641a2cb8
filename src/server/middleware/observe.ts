import type { RequestHandler } from 'express'
import type { Logger } from '../logger.js'
import { CLIENT_GONE, type Metrics } from '../metrics.js'
import { RequestRecord } from '../record.js'
import type { PathInfo } from '../routes/route.js'

/** Routes that machines ask every few seconds: their good answers are for `debug`. */
const polled = new Set(['/health', '/metrics'])

/**
 * Keeps a record of each request, and when it is over writes one line and counts it. The line has ids, counts, times and
 * fixed words; never what was asked or answered, nor headers.
 */
export function observe(logger: Logger, metrics: Metrics, lookup: (path: string) => PathInfo): RequestHandler {
  return (req, res, next) => {
    const { method, path } = req
    const record = new RequestRecord(res.locals['requestId'] as string, method, lookup(path).name)
    res.locals['record'] = record
    res.once('close', () => {
      const complete = res.writableFinished
      const status = complete ? res.statusCode : CLIENT_GONE
      metrics.add(record, status)
      const level = polled.has(record.route) && status === 200 ? 'debug' : 'info'
      const message = complete ? 'request' : `request aborted by the client (${record.phase})`
      // Of unknown paths the path itself is what helps, and it is no more than the client's own mistake.
      logger[level](fields(record, status, record.route === 'other' ? path.slice(0, 200) : undefined), message)
    })
    next()
  }
}

function fields(record: RequestRecord, status: number, path: string | undefined): object {
  const { id, method, route, marks, promptTokens, cachedTokens, completionTokens, finishReason, errorCode } = record
  const { arrived, queued, granted, firstToken } = marks
  const now = performance.now()
  const whole = (ms: number) => Math.round(ms)
  return {
    id,
    method,
    route,
    ...(path === undefined ? {} : { path }),
    status,
    ms: whole(now - arrived),
    ...(queued === undefined ? {} : { promptTokens, queueMs: whole((granted ?? now) - queued) }),
    ...(granted === undefined ? {} : { cachedTokens, completionTokens }),
    ...(firstToken === undefined ? {} : { firstTokenMs: whole(firstToken - arrived) }),
    ...(finishReason === undefined ? {} : { finishReason }),
    ...(errorCode === undefined ? {} : { error: errorCode }),
  }
}
