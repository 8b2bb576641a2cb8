import { createHash, timingSafeEqual } from 'node:crypto'
import type { RequestHandler } from 'express'
import { ApiError } from '../../openai/errors.js'

/** Asks for the bearer token. Keys are compared by their digests, which have equal lengths, in constant time. */
export function auth(apiKey: string | undefined): RequestHandler {
  if (apiKey === undefined) return (_req, _res, next) => next()
  const expected = digest(Buffer.from(apiKey, 'utf8'))
  return (req, _res, next) => {
    const header = req.headers.authorization
    // Node decodes header bytes as Latin-1; the key is meant in UTF-8.
    const match = /^[ \t]*bearer[ \t]+(.*?)[ \t]*$/is.exec(header ?? '')
    if (match?.[1] !== undefined && timingSafeEqual(digest(Buffer.from(match[1], 'latin1')), expected)) return next()
    const message = match
      ? 'The API key is wrong.'
      : 'This server asks for an API key: send the header "Authorization: Bearer KEY".'
    throw new ApiError(401, message, { code: 'invalid_api_key', headers: { 'WWW-Authenticate': 'Bearer' } })
  }
}

function digest(key: Buffer): Buffer {
  return createHash('sha256').update(key).digest()
}
