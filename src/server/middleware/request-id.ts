import { randomUUID } from 'node:crypto'
import type { RequestHandler } from 'express'

/** Takes `X-Request-Id` from the client where it is harmless, makes one otherwise, and returns it. */
export const requestId: RequestHandler = (req, res, next) => {
  const given = req.get('x-request-id')
  const id = given !== undefined && /^[\w.:-]{1,128}$/.test(given) ? given : randomUUID()
  res.locals['requestId'] = id
  res.set('X-Request-Id', id)
  next()
}
