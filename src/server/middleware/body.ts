import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { TextDecoder } from 'node:util'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import type { RequestHandler } from 'express'
import { ApiError, invalidRequest, quote } from '../../wire/errors.js'
import { parseJson } from '../../wire/json.js'

/** How much more than the limit is read and thrown away, so that the client gets to read the 413. */
const DISCARD_FACTOR = 4

/** Reads a JSON body of at most `limit` inflated bytes into `req.body`, whatever content type it claims. */
export function jsonBody(limit: number): RequestHandler {
  return async (req, _res, next) => {
    // An app around this one may have read the body already.
    if (req.body !== undefined && req.readableEnded) return next()
    const decoder = textDecoder(req.headers['content-type'])
    const text = decoder.decode(await readBytes(req, limit))
    req.body = parseJson(text)
    next()
  }
}

function unsupported(message: string, headers: Record<string, string> = {}): ApiError {
  return new ApiError(415, message, { code: 'unsupported_media_type', headers })
}

/** The decoder of the charset that a content type names; JSON is UTF-8 by default. */
function textDecoder(contentType: string | undefined): TextDecoder {
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(contentType ?? '')?.[1]?.toLowerCase() ?? 'utf-8'
  if (charset === 'utf-8' || charset === 'utf8' || charset === 'us-ascii') return new TextDecoder('utf-8')
  if (/^utf-16(le|be)?$/.test(charset)) return new TextDecoder(charset)
  throw unsupported(`The charset ${quote(charset)} is not supported; send UTF-8.`)
}

/** The inflated form of a body. */
function inflate(req: IncomingMessage): { stream: Readable; coding: string | undefined } {
  const coding = req.headers['content-encoding']?.trim().toLowerCase() ?? 'identity'
  switch (coding) {
    case '':
    case 'identity':
      return { stream: req, coding: undefined }
    case 'gzip':
    case 'x-gzip':
      return { stream: req.pipe(createGunzip()), coding }
    case 'deflate':
      return { stream: req.pipe(createInflate()), coding }
    case 'br':
      return { stream: req.pipe(createBrotliDecompress()), coding }
    default:
      throw unsupported(`The content coding ${quote(coding)} is not supported.`, {
        'Accept-Encoding': 'gzip, deflate, br',
      })
  }
}

function tooLarge(req: IncomingMessage, limit: number): ApiError {
  let discarded = 0
  req.unpipe()
  req.on('data', (chunk: Buffer) => {
    discarded += chunk.length
    if (discarded > DISCARD_FACTOR * limit) req.destroy()
  })
  req.resume()
  return new ApiError(413, `The request body is larger than ${limit} bytes.`, { code: 'request_too_large' })
}

function readBytes(req: IncomingMessage, limit: number): Promise<Buffer> {
  const { stream, coding } = inflate(req)
  return new Promise((resolve, reject) => {
    if (Number(req.headers['content-length'] ?? 0) > limit) return reject(tooLarge(req, limit))
    const chunks: Buffer[] = []
    let size = 0
    const settle = (done: () => void): void => {
      stream.off('data', onData).off('end', onEnd).off('error', onError)
      req.off('close', onClose)
      // A decoder that is no longer wanted may still report what it chokes on.
      stream.on('error', () => {})
      if (stream !== req) stream.destroy()
      done()
    }
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      if (size <= limit) chunks.push(chunk)
      else settle(() => reject(tooLarge(req, limit)))
    }
    const onEnd = (): void => settle(() => resolve(Buffer.concat(chunks)))
    const onError = (cause: Error): void => {
      const message =
        coding === undefined ? 'The request body was cut off.' : `The request body is not valid ${coding} data.`
      settle(() => {
        req.resume()
        reject(invalidRequest(message, undefined, { cause }))
      })
    }
    const onClose = (): void => {
      if (!req.complete) onError(new Error('connection closed'))
    }
    stream.on('data', onData).on('end', onEnd).on('error', onError)
    req.on('close', onClose)
  })
}
