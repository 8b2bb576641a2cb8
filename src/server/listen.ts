import { randomUUID } from 'node:crypto'
import { createServer as createHttpServer, STATUS_CODES, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { createError } from '../errors.js'
import { ApiError } from '../wire/errors.js'
import { openAiErrors } from '../wire/openai/errors.js'
import type { App } from './app.js'

/** Milliseconds an idle connection is kept: longer than the minute that most proxies keep theirs. */
const KEEP_ALIVE_MS = 75_000

/** A server that takes requests. */
export interface RunningServer {
  readonly server: Server
  readonly port: number
  /** Where a browser on this machine finds it. */
  readonly url: string
  /**
   * Takes no new requests, lets the running ones finish within the grace time, then closes. Resolves to whether all of
   * them finished.
   */
  close(): Promise<boolean>
}

/** The HTTP server of an app: what Node itself refuses gets the OpenAI error shape too. */
export function createHttp({ app, state, lookup }: App): Server {
  // An absent Host header is refused by the app, in JSON.
  const server = createHttpServer({ requireHostHeader: false, keepAliveTimeout: KEEP_ALIVE_MS }, app)
  server.on('clientError', refuse)
  server.on('checkExpectation', (req, res: ServerResponse) => {
    const error = new ApiError(417, 'This Expect header cannot be met.', { code: 'expectation_failed' })
    const id = randomUUID()
    const { errors } = lookup((req.url ?? '').replace(/\?.*/s, ''))
    const { status, body: shown } = errors.render(error, id)
    const body = JSON.stringify(shown)
    res
      .writeHead(status, {
        'Content-Type': 'application/json; charset=utf-8',
        'Content-Length': Buffer.byteLength(body),
        'X-Request-Id': id,
      })
      .end(body)
  })
  // A finished answer that nobody takes must not hold its connection for ever; a pipelined one behind it may take its time.
  const pending = new WeakMap<Socket, number>()
  server.on('request', (req, res) => {
    const { socket } = req
    pending.set(socket, (pending.get(socket) ?? 0) + 1)
    res.once('prefinish', () => socket.setTimeout(state.config.sendTimeout * 1000))
    res.once('finish', () => {
      const left = (pending.get(socket) ?? 1) - 1
      pending.set(socket, left)
      if (left > 0) socket.setTimeout(0)
    })
  })
  return server
}

/** Answers what is not readable HTTP; the connection cannot be used any further. */
function refuse(error: NodeJS.ErrnoException, socket: Socket & { _httpMessage?: ServerResponse | null }): void {
  if (!socket.writable || error.code === 'ECONNRESET' || socket._httpMessage?.headersSent) {
    socket.destroy()
    return
  }
  const refusal = toRefusal(error)
  const id = randomUUID()
  // The path is not known.
  const body = JSON.stringify(openAiErrors.render(refusal, id).body)
  socket.end(
    [
      `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${id}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  )
}

function toRefusal(error: NodeJS.ErrnoException): ApiError {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return new ApiError(431, 'The request headers are too large.', { code: 'headers_too_large' })
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new ApiError(413, 'The chunk extensions are too large.', { code: 'request_too_large' })
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ApiError(408, 'The request took too long to arrive.', { code: 'request_timeout' })
    default:
      return new ApiError(400, 'The request is not valid HTTP.', { code: 'bad_request' })
  }
}

/** Opens the port. */
export async function listen(app: App): Promise<RunningServer> {
  const { host, port, shutdownGrace } = app.state.config
  const server = createHttp(app)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(listenError(error, host, port)))
    server.listen(port, host, resolve)
  })
  const address = server.address() as AddressInfo
  const name = host === '0.0.0.0' || host === '::' ? 'localhost' : host.includes(':') ? `[${host}]` : host
  return {
    server,
    port: address.port,
    url: `http://${name}:${address.port}`,
    async close() {
      const finished = await within(app.state.drain(), shutdownGrace * 1000)
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      // Answers are complete now, but may still be on their way to slow readers.
      server.closeIdleConnections()
      await within(closed, finished ? 1000 : 0)
      server.closeAllConnections()
      await closed
      return finished
    },
  }
}

function listenError(error: NodeJS.ErrnoException, host: string, port: number): Error {
  const options = { cause: error }
  switch (error.code) {
    case 'EADDRINUSE':
      return createError(
        'INVALID_ARGUMENT',
        `Port ${port} is in use already. Stop what uses it, or choose another with --port.`,
        options,
      )
    case 'EACCES':
      return createError(
        'INVALID_ARGUMENT',
        `This user may not open port ${port}. Choose one above 1023 with --port.`,
        options,
      )
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return createError(
        'INVALID_ARGUMENT',
        `${host} is not an address of this machine. Choose another with --host.`,
        options,
      )
    default:
      return error
  }
}

/** Whether a promise resolves within so many milliseconds. */
async function within(promise: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(false), ms)))
  try {
    return await Promise.race([promise.then(() => true), timeout])
  } finally {
    clearTimeout(timer)
  }
}
