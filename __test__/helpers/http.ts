import { once } from 'node:events'
import type { Server } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { createConfig, type ConfigSources } from '../../src/config.js'
import { createApp, type App, type AppOptions } from '../../src/server/app.js'
import { createHttp } from '../../src/server/listen.js'
import type { ServedModel } from '../../src/server/model.js'
import { FakeModel } from './fake-model.js'

type Settings = NonNullable<ConfigSources['values']>

/** A server on a free port that goes away with its test. */
export interface TestServer extends App {
  readonly url: string
  readonly port: number
  readonly server: Server
  /** Sends a JSON body. */
  readonly post: (path: string, body: unknown, init?: RequestInit) => Promise<Response>
}

export async function serve(
  t: Test,
  model: ServedModel | Promise<ServedModel> = new FakeModel(),
  settings: Settings = {},
  options?: AppOptions,
): Promise<TestServer> {
  const app = createApp(model, createConfig({ values: settings }), options)
  const server = createHttp(app)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  return {
    ...app,
    url,
    port,
    server,
    post: (path, body, init = {}) =>
      fetch(url + path, {
        method: 'POST',
        ...init,
        headers: { 'content-type': 'application/json', ...(init.headers as Record<string, string>) },
        body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
      }),
  }
}

/** Sends bytes as they are and returns everything that comes back until the connection closes. */
export async function raw(port: number, text: string | Buffer): Promise<string> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(text)
  let answer = ''
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')))
  await once(socket, 'close')
  return answer
}

/** The objects of an event stream, and whether `[DONE]` ended it. Comments are counted. */
export function parseEvents(text: string): { events: any[]; done: boolean; comments: number } {
  const blocks = text.split('\n\n')
  const last = blocks.pop()
  if (last !== '') throw new Error(`stream does not end with an empty line: ${last}`)
  const comments = blocks.filter((block) => block.startsWith(':')).length
  const data = blocks
    .filter((block) => !block.startsWith(':'))
    .map((block) => {
      if (!block.startsWith('data: ') || block.includes('\n')) throw new Error(`not one data line: ${block}`)
      return block.slice(6)
    })
  const done = data.at(-1) === '[DONE]'
  if (done) data.pop()
  return { events: data.map((line) => JSON.parse(line)), done, comments }
}

/** A streamed chat, put together as a client does: the message, the one finish reason, the usage. */
export async function assemble(response: Response): Promise<{ message: any; finish: string; usage: any }> {
  const { events, done } = parseEvents(await response.text())
  if (!done) throw new Error('the stream was cut')
  const message: Record<string, any> = {}
  const finishes: string[] = []
  for (const { choices } of events) {
    for (const { delta, finish_reason: finish } of choices) {
      if (finish !== null) finishes.push(finish)
      for (const [key, value] of Object.entries<any>(delta)) {
        if (key === 'tool_calls') {
          const [{ index, ...call }] = value
          const calls = (message[key] ??= [])
          if (index !== calls.length) throw new Error(`call ${index} comes after ${calls.length}`)
          calls.push(call)
        } else message[key] = (message[key] ?? '') + value
      }
    }
  }
  if (finishes.length !== 1) throw new Error(`finish reasons: ${finishes.join()}`)
  return { message, finish: finishes[0] ?? '', usage: events.at(-1).usage }
}

/** Waits until a condition holds; the test's own time-out is the limit. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2))
}

export const hello = { messages: [{ role: 'user', content: 'Hello there' }] }
