import { isIP } from 'node:net'
import type { Request, RequestHandler } from 'express'
import type { Config } from '../../config.js'
import { ApiError, invalidRequest } from '../../wire/errors.js'
import type { PathInfo } from '../routes/route.js'

type BrowserConfig = Pick<Config, 'allowedOrigins' | 'host' | 'apiKey'>

const METHODS = 'GET, HEAD, POST, DELETE, OPTIONS'
const DEFAULT_HEADERS = 'Authorization, Content-Type, X-Request-Id'

/** What browsers need to call this server from other pages. OPTIONS is answered here, whatever the path and the key. */
export function cors({ allowedOrigins }: BrowserConfig, lookup: (path: string) => PathInfo): RequestHandler {
  return (req, res, next) => {
    const { origin } = req.headers
    if (allowedOrigins.length > 0) {
      const any = allowedOrigins.includes('*')
      if (!any) res.vary('Origin')
      if (any || (origin !== undefined && allowedOrigins.includes(normalOrigin(origin)))) {
        res.set('Access-Control-Allow-Origin', any ? '*' : origin)
        res.set('Access-Control-Expose-Headers', 'Retry-After, X-Request-Id')
        if (req.method === 'OPTIONS') {
          res.vary('Access-Control-Request-Headers')
          res.set('Access-Control-Allow-Methods', METHODS)
          res.set('Access-Control-Allow-Headers', req.get('access-control-request-headers') ?? DEFAULT_HEADERS)
          res.set('Access-Control-Max-Age', '600')
        }
      }
    }
    if (req.method === 'OPTIONS') res.set('Allow', lookup(req.path).allow).status(204).end()
    else next()
  }
}

/**
 * Keeps foreign web pages out: a server on loopback without a key answers only to loopback names (a page can point its
 * own name at 127.0.0.1), and an `Origin` is either this server's, allowed, or refused.
 */
export function browserGuard({ allowedOrigins, host, apiKey }: BrowserConfig): RequestHandler {
  const checkHost = apiKey === undefined && isLoopback(host)
  return (req, _res, next) => {
    const target = req.headers.host
    if (target === undefined && req.httpVersion === '1.1') throw invalidRequest('The Host header is missing.')
    if (checkHost && target !== undefined && !isLoopback(hostName(target))) {
      throw new ApiError(403, 'This server answers to loopback names only. Set an API key to open it.', {
        code: 'host_not_allowed',
      })
    }
    if (!originAllowed(req, allowedOrigins)) {
      throw new ApiError(403, 'Pages of this origin may not call this server (MAPLE_ALLOWED_ORIGINS).', {
        code: 'origin_not_allowed',
      })
    }
    next()
  }
}

function originAllowed(req: Request, allowed: readonly string[]): boolean {
  const { origin } = req.headers
  if (origin === undefined || allowed.includes('*')) return true
  const normal = normalOrigin(origin)
  if (allowed.includes(normal)) return true
  // The server's own pages send an Origin too.
  if (URL.canParse(normal) && new URL(normal).host === req.headers.host?.toLowerCase()) return true
  // With CORS off no page can read an answer, so reading is harmless; a POST would still occupy the model.
  return allowed.length === 0 && (req.method === 'GET' || req.method === 'HEAD')
}

function normalOrigin(origin: string): string {
  return origin.toLowerCase().replace(/\/$/, '')
}

/** The name in a `Host` header, without the port and the brackets of an IPv6 address. */
function hostName(host: string): string {
  return host.replace(/:\d*$/, '').replace(/^\[(.*)\]$/, '$1')
}

/** Whether a host name or address always means this machine. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[(.*)\]$/, '$1')
  if (name === 'localhost' || name.endsWith('.localhost')) return true
  return isIP(name) === 4 ? name.startsWith('127.') : name === '::1' || name === '::ffff:127.0.0.1'
}
