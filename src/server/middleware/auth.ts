import { createHash, timingSafeEqual } from 'node:crypto'
import type { RequestHandler } from 'express'
import { ApiError } from '../../wire/errors.js'
import type { PathInfo } from '../routes/route.js'

/**
 * Asks for the bearer token, or for the bare key in the header that a path has for it. Keys are compared by their digests, which have equal lengths, in
 * constant time.
 */
export function auth(apiKey: string | undefined, lookup: (path: string) => PathInfo): RequestHandler {
  if (apiKey === undefined) return (_req, _res, next) => next()
  const expected = digest(Buffer.from(apiKey, 'utf8'))
  return (req, _res, next) => {
    const header = req.headers.authorization
    // Node decodes header bytes as Latin-1; the key is meant in UTF-8.
    const match = /^[ \t]*bearer[ \t]+(.*?)[ \t]*$/is.exec(header ?? '')
    const { keyHeader } = lookup(req.path)
    const bare = keyHeader === undefined ? undefined : req.get(keyHeader)?.trim()
    const given = [match?.[1], bare].filter((key) => key !== undefined)
    if (given.some((key) => timingSafeEqual(digest(Buffer.from(key, 'latin1')), expected))) return next()
    const message =
      (match ?? bare)
        ? 'The API key is wrong.'
        : 'This server asks for an API key: send the header "Authorization: Bearer KEY".'
    throw new ApiError(401, message, { code: 'invalid_api_key', headers: { 'WWW-Authenticate': 'Bearer' } })
  }
}

function digest(key: Buffer): Buffer {
  return createHash('sha256').update(key).digest()
}
