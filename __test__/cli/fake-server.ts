import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What was asked of the fake server. */
export interface SeenChat {
  readonly authorization: string | undefined
  readonly body: { messages: { role: string; content: string }[] } & Record<string, unknown>
  /** The client went away before the end. */
  left: boolean
}

/** A server with the OpenAI API in miniature: it answers every chat with the given events. */
export class FakeServer {
  readonly chats: SeenChat[] = []
  /** Pieces of the next answers: text is content, `reasoning:` text is reasoning, a number is a pause in milliseconds, `hang` never ends. */
  script: (string | number)[] = ['reasoning:We think.', 'Hello', ', world', '!']
  /** Answer with this status instead. */
  status = 200
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => void this.#answer(request, response))
  }

  static async start(): Promise<FakeServer> {
    const fake = new FakeServer()
    await new Promise<void>((resolve) => fake.#server.listen(0, '127.0.0.1', resolve))
    return fake
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  stop(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    if (this.status !== 200) {
      response.writeHead(this.status, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ error: { message: 'No luck today.' } }))
      return
    }
    if (request.url === '/v1/models') {
      response.end(JSON.stringify({ data: [{ id: 'maple-fake' }] }))
      return
    }
    const chat: SeenChat = {
      authorization: request.headers.authorization,
      body: JSON.parse(Buffer.concat(chunks).toString()),
      left: false,
    }
    this.chats.push(chat)
    let open = true
    response.on('close', () => {
      chat.left = !response.writableFinished
      open = false
    })
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const send = (value: unknown): void =>
      void response.write(`data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`)
    const delta = (delta: object, finish_reason: string | null = null): void =>
      send({ choices: [{ index: 0, delta, finish_reason }] })
    delta({ role: 'assistant', content: '' })
    for (const piece of this.script) {
      if (!open) return
      if (piece === 'hang') return
      if (piece === 'error') send({ error: { message: 'It broke.' } })
      else if (piece === 'cut') return void response.destroy()
      else if (typeof piece === 'number') await new Promise((resolve) => setTimeout(resolve, piece))
      else if (piece.startsWith('reasoning:')) delta({ reasoning_content: piece.slice(10) })
      else delta({ content: piece })
      response.write(': keep-alive\n\n')
    }
    delta({}, 'stop')
    send({
      choices: [],
      usage: {
        prompt_tokens: 7,
        completion_tokens: 5,
        completion_tokens_details: { reasoning_tokens: 2 },
        prompt_tokens_details: { cached_tokens: 1 },
      },
    })
    send('[DONE]')
    response.end()
  }
}
