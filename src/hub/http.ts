import http from 'node:http'
import https from 'node:https'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { HubError } from '../errors.js'
import { TransientFault } from './retry.js'

const maxRedirects = 10

/** One answer after its redirects. */
export interface HubResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Address that answered, without its query, which may be a signature. */
  readonly address: string
  /** Whether the hub itself answered, not a content server it points to. */
  readonly fromHub: boolean
  /** The commit, etag and size of the file itself, as the first hop to name them gave them. */
  readonly linked: LinkedFile
  /** Reads the body; a wait of more than the request's time-out for its next bytes fails. */
  body(): AsyncGenerator<Buffer, void, undefined>
  /** Drops the connection with what is still on it. */
  discard(): void
}

/** What the hub's own headers say of a file. */
export interface LinkedFile {
  readonly commit?: string | undefined
  readonly etag?: string | undefined
  readonly size?: string | undefined
}

/** One request. */
export interface HubRequest {
  readonly method: 'GET' | 'HEAD'
  /** Path below the endpoint, or a whole address (as in a paging link). */
  readonly target: string
  readonly headers?: Readonly<Record<string, string>>
  /** Longest wait for the next sign of life, in milliseconds. */
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
  /** Stop at a redirect that leaves the hub and already describes the file, instead of following it. */
  readonly stopAtFile?: boolean
}

/**
 * Speaks HTTP to one hub. Redirects are followed here, one by one, so that the token goes to the hub's own origin (scheme, host and port) and to
 * no other, and so that no message ever holds a query.
 */
export class HubClient {
  readonly #endpoint: URL
  readonly #token: string | undefined
  readonly #agents: { 'http:': http.Agent; 'https:': https.Agent }

  constructor(endpoint: URL, token: string | undefined) {
    this.#endpoint = endpoint
    this.#token = token
    this.#agents = {
      'http:': new http.Agent({ keepAlive: true, maxSockets: 16 }),
      'https:': new https.Agent({ keepAlive: true, maxSockets: 16 }),
    }
  }

  /** The hub's address, for messages. */
  get endpoint(): string {
    return this.#endpoint.origin + this.#endpoint.pathname.replace(/\/$/, '')
  }

  get hasToken(): boolean {
    return this.#token !== undefined
  }

  /** Closes the idle connections. */
  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy()
  }

  /** The final answer, whatever its status. Throws {@link TransientFault} on faults of the connection, the signal's reason on abort. */
  async request(request: HubRequest): Promise<HubResponse> {
    let url = new URL(/^https?:\/\//i.test(request.target) ? request.target : this.endpoint + request.target)
    let linked: LinkedFile = {}
    const seen = new Set<string>()
    for (let hops = 0; ; hops++) {
      if (hops > maxRedirects || seen.has(url.href)) {
        throw new HubError(
          'HUB_BAD_RESPONSE',
          `${this.endpoint} redirects in circles: ${hops} redirects, the last to ${address(url)}.`,
        )
      }
      seen.add(url.href)
      const fromHub = url.origin === this.#endpoint.origin
      const message = await this.#send(url, fromHub, request)
      linked = mergeLinked(linked, message.headers)
      const status = message.statusCode ?? 0
      const next = redirectTarget(status, message.headers, url)
      if (next === undefined) return this.#respond(message, url, fromHub, linked, request)
      if (request.stopAtFile && next.origin !== url.origin) {
        const etag = linked.etag ?? message.headers.etag
        if (etag !== undefined) return this.#respond(message, url, fromHub, { ...linked, etag }, request)
      }
      // A redirect's body is of no use, and may have no end.
      if (request.method === 'HEAD') message.resume()
      else message.destroy()
      url = next
    }
  }

  #send(url: URL, fromHub: boolean, { method, headers, timeoutMs, signal }: HubRequest): Promise<IncomingMessage> {
    signal?.throwIfAborted()
    const secure = url.protocol === 'https:'
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => outgoing.destroy(stalled(url, timeoutMs)), timeoutMs)
      const outgoing = (secure ? https : http).request(url, {
        method,
        agent: secure ? this.#agents['https:'] : this.#agents['http:'],
        headers: {
          'user-agent': 'maple-cpu',
          accept: '*/*',
          // The lengths and hashes are those of the file itself.
          'accept-encoding': 'identity',
          ...headers,
          ...(fromHub && this.#token !== undefined ? { authorization: `Bearer ${this.#token}` } : {}),
        },
        ...(signal === undefined ? {} : { signal }),
      })
      outgoing.on('response', (message) => {
        clearTimeout(timer)
        resolve(message)
      })
      outgoing.on('error', (error) => {
        clearTimeout(timer)
        reject(signal?.aborted ? signal.reason : connectionFault(error, url))
      })
      outgoing.end()
    })
  }

  #respond(
    message: IncomingMessage,
    url: URL,
    fromHub: boolean,
    linked: LinkedFile,
    { timeoutMs, signal }: HubRequest,
  ): HubResponse {
    // Errors after the last read (a body nobody wants any more) have no one else to hear them.
    message.on('error', () => {})
    return {
      status: message.statusCode ?? 0,
      headers: message.headers,
      address: address(url),
      fromHub,
      linked,
      discard: () => void message.destroy(),
      async *body() {
        const chunks = message[Symbol.asyncIterator]() as AsyncIterator<Buffer>
        try {
          for (;;) {
            const timer = setTimeout(() => message.destroy(stalled(url, timeoutMs)), timeoutMs)
            const next = await chunks.next().finally(() => clearTimeout(timer))
            if (next.done) return
            yield next.value
          }
        } catch (error) {
          signal?.throwIfAborted()
          throw connectionFault(error, url)
        } finally {
          message.destroy()
        }
      },
    }
  }
}

/** Reads a whole body of at most `limit` bytes. */
export async function readBody(response: HubResponse, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of response.body()) {
    length += chunk.length
    if (length > limit)
      throw new HubError(
        'HUB_BAD_RESPONSE',
        `${response.address} answered with more than ${limit} bytes, which is more than it can rightly have to say.`,
      )
    chunks.push(chunk)
  }
  const said = response.headers['content-length']
  if (said !== undefined && Number(said) !== length) {
    throw new TransientFault(
      new HubError('HUB_UNREACHABLE', `${response.address} promised ${said} bytes and sent ${length}.`),
    )
  }
  return Buffer.concat(chunks)
}

/** An etag without its quotes and weakness mark. */
export function normalizeEtag(etag: string | undefined): string | undefined {
  return etag
    ?.trim()
    .replace(/^W\//, '')
    .replace(/^"(.*)"$/, '$1')
}

function mergeLinked(linked: LinkedFile, headers: IncomingHttpHeaders): LinkedFile {
  const header = (name: string): string | undefined => {
    const value = headers[name]
    return Array.isArray(value) ? value[0] : value
  }
  return {
    commit: linked.commit ?? header('x-repo-commit'),
    etag: linked.etag ?? header('x-linked-etag'),
    size: linked.size ?? header('x-linked-size'),
  }
}

function redirectTarget(status: number, headers: IncomingHttpHeaders, url: URL): URL | undefined {
  if (![301, 302, 303, 307, 308].includes(status) || headers.location === undefined) return undefined
  let next: URL
  try {
    next = new URL(headers.location, url)
  } catch {
    throw new HubError('HUB_BAD_RESPONSE', `${address(url)} redirects to something that is not an address.`)
  }
  if (next.protocol !== 'https:' && next.protocol !== 'http:') {
    throw new HubError(
      'HUB_BAD_RESPONSE',
      `${address(url)} redirects to an address of the kind ${next.protocol}, which is not followed.`,
    )
  }
  next.username = ''
  next.password = ''
  next.hash = ''
  return next
}

/** An address as messages may show it: no query, which may be a signature, and no credentials. */
function address(url: URL): string {
  const text = url.origin + url.pathname
  return text.length > 300 ? `${text.slice(0, 299)}…` : text
}

function stalled(url: URL, timeoutMs: number): TransientFault {
  return new TransientFault(
    new HubError('HUB_UNREACHABLE', `${address(url)} sent nothing for ${timeoutMs / 1000} seconds.`),
  )
}

function connectionFault(error: unknown, url: URL): unknown {
  if (error instanceof TransientFault || error instanceof HubError) return error
  const code = (error as NodeJS.ErrnoException | undefined)?.code
  const why = reasons[code ?? ''] ?? code ?? 'the connection failed'
  return new TransientFault(new HubError('HUB_UNREACHABLE', `No answer from ${url.origin}: ${why}.`, { cause: error }))
}

const reasons: Readonly<Record<string, string>> = {
  ENOTFOUND: 'its name is not known (is this machine on the network?)',
  EAI_AGAIN: 'its name could not be looked up (is this machine on the network?)',
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection broke off',
  EPIPE: 'the connection broke off',
  ETIMEDOUT: 'the connection timed out',
  EHOSTUNREACH: 'no way leads to that host',
  ENETUNREACH: 'no way leads to that network',
}
