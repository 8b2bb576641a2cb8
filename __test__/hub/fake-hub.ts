import { createHash } from 'node:crypto'
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

/** A repo as the fake hub serves it. */
export interface FakeRepo {
  /** Files by name; those ending in .safetensors or .gguf, and tokenizer.json, are LFS files. */
  files: Record<string, Buffer>
  commit?: string
  /** Branches and tags beside `main`, by name. */
  refs?: Record<string, string>
}

/** A request as it came in, for tests to look at. */
export interface SeenRequest {
  /** Which of the two servers got it: the hub, or the content server that LFS files are redirected to. */
  server: 'hub' | 'content'
  method: string
  /** Path with query. */
  url: string
  /** The file asked for, where it is one. */
  file: string | undefined
  /** How many requests of this method came for this file before. */
  earlier: number
  headers: IncomingMessage['headers']
}

/** Ways to misbehave; one answer may combine several. */
export interface Fault {
  /** Answer with this status and no body. */
  status?: number
  headers?: Record<string, string>
  /** Break the connection after so many bytes of the body. */
  cutAfter?: number
  /** Send nothing more after so many bytes, and keep the connection. */
  stallAfter?: number
  /** Answer a range with the whole file. */
  ignoreRange?: boolean
  /** Begin a range this many bytes later than asked, and say so. */
  shiftRange?: number
  /** Name this total in Content-Range. */
  total?: number
  /** Send other bytes than the file's, of the same length. */
  corrupt?: boolean
  /** Send more bytes than the file has. */
  extra?: number
  /** Milliseconds between pieces of 1/50 of the body. */
  slowMs?: number
  /** Answer with this body and type instead. */
  body?: string
}

/**
 * A hub in miniature: it speaks the Hugging Face hub's protocol on one port, serves LFS files from another one through signed links, and misbehaves on
 * request. Two plain HTTP servers on the loopback interface, nothing shared with the code under test.
 */
export class FakeHub {
  readonly requests: SeenRequest[] = []
  /** Asked for each request; what it returns is done. */
  misbehave: (request: SeenRequest) => Fault | undefined = () => undefined
  /** The token without which nothing is answered, if there is one. */
  token: string | undefined
  /** The secret in signed links. */
  readonly signature = 'c2lnbmVkLWxpbmstc2VjcmV0'
  readonly #repos = new Map<string, Required<FakeRepo>>()
  readonly #renamed = new Map<string, string>()
  readonly #hub: Server
  readonly #content: Server
  readonly #sockets = new Set<Socket>()

  private constructor() {
    this.#hub = createServer((request, response) => this.#onHub(request, response))
    this.#content = createServer((request, response) => this.#onContent(request, response))
    for (const server of [this.#hub, this.#content]) server.on('connection', (socket) => this.#sockets.add(socket))
  }

  static async start(): Promise<FakeHub> {
    const hub = new FakeHub()
    for (const server of [hub.#hub, hub.#content]) {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    }
    return hub
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    for (const server of [this.#hub, this.#content]) await new Promise((resolve) => server.close(resolve))
  }

  get endpoint(): string {
    return origin(this.#hub)
  }

  get contentOrigin(): string {
    return origin(this.#content)
  }

  addRepo(id: string, repo: FakeRepo): { commit: string } {
    const commit =
      repo.commit ??
      createHash('sha1')
        .update(id)
        .update(JSON.stringify(Object.keys(repo.files)))
        .digest('hex')
    this.#repos.set(id, { refs: {}, ...repo, commit })
    return { commit }
  }

  /** Answers requests for `from` with a redirect to `to`. */
  rename(from: string, to: string): void {
    this.#renamed.set(from, to)
  }

  /** How often something was asked for. */
  count(match: Partial<Pick<SeenRequest, 'server' | 'method' | 'file'>>): number {
    return this.requests.filter((request) =>
      Object.entries(match).every(([key, value]) => request[key as 'file'] === value),
    ).length
  }

  #see(server: 'hub' | 'content', request: IncomingMessage, file: string | undefined): SeenRequest {
    const method = request.method ?? ''
    const seen: SeenRequest = {
      server,
      method,
      url: request.url ?? '',
      file,
      earlier: this.requests.filter(
        (other) => other.server === server && other.method === method && other.file === file,
      ).length,
      headers: request.headers,
    }
    this.requests.push(seen)
    return seen
  }

  #onHub(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '', this.endpoint)
    const parts = url.pathname.split('/').slice(1).map(decodeURIComponent)
    const api = parts[0] === 'api'
    const [org, name, verb, revision, ...rest] = api ? parts.slice(2) : parts
    const id = `${org}/${name}`
    const file = !api && verb === 'resolve' ? rest.join('/') : undefined
    const fault = this.misbehave(this.#see('hub', request, file)) ?? {}
    const fail = (status: number, headers: Record<string, string> = {}): void =>
      void response.writeHead(status, headers).end()
    if (fault.status !== undefined && file === undefined) return fail(fault.status, fault.headers)
    if (this.token !== undefined && request.headers.authorization !== `Bearer ${this.token}`) {
      return request.headers.authorization === undefined
        ? fail(401, { 'x-error-code': 'RepoNotFound', 'x-error-message': 'Repository not found' })
        : fail(401, { 'x-error-message': 'Invalid credentials in Authorization header' })
    }
    const answer = (text: string): void => {
      response.writeHead(200, {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
        ...fault.headers,
      })
      response.end(text)
    }
    if (fault.body !== undefined) return answer(fault.body)
    const renamed = this.#renamed.get(id)
    if (renamed !== undefined)
      return fail(307, { location: url.pathname.replace(`/${id}/`, `/${renamed}/`) + url.search })
    const repo = this.#repos.get(id)
    if (repo === undefined)
      return fail(404, { 'x-error-code': 'RepoNotFound', 'x-error-message': 'Repository not found' })
    const commit = revision === 'main' || revision === repo.commit ? repo.commit : repo.refs[revision ?? '']
    if (commit === undefined)
      return fail(404, { 'x-error-code': 'RevisionNotFound', 'x-error-message': `Invalid rev id: ${revision}` })
    if (file === undefined) {
      const json =
        api && verb === 'revision'
          ? { id, sha: commit, siblings: Object.keys(repo.files).map((rfilename) => ({ rfilename })) }
          : tree(repo.files)
      return answer(JSON.stringify(json))
    }
    const content = repo.files[file]
    if (content === undefined) return fail(404, { 'x-error-code': 'EntryNotFound', 'x-repo-commit': commit })
    const headers: Record<string, string> = { 'x-repo-commit': commit, 'accept-ranges': 'bytes' }
    if (!isLfs(file)) {
      send(request, response, content, { ...headers, etag: `"${gitHash(content)}"`, ...fault.headers }, fault)
      return
    }
    if (fault.status !== undefined) return fail(fault.status, { ...headers, ...fault.headers })
    response.writeHead(302, {
      ...headers,
      etag: `"${sha256(content)}"`,
      'x-linked-etag': `"${sha256(content)}"`,
      'x-linked-size': String(content.length),
      location: `${this.contentOrigin}/${id}/${encodeURIComponent(file)}?X-Signature=${this.signature}`,
      ...fault.headers,
    })
    response.end()
  }

  #onContent(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? '', this.contentOrigin)
    const [org, name, encoded] = url.pathname.split('/').slice(1)
    const file = decodeURIComponent(encoded ?? '')
    const fault = this.misbehave(this.#see('content', request, file)) ?? {}
    const content = this.#repos.get(`${org}/${name}`)?.files[file]
    if (content === undefined || url.searchParams.get('X-Signature') !== this.signature)
      return void response.writeHead(403).end()
    send(
      request,
      response,
      content,
      { etag: `"content-${createHash('md5').update(content).digest('hex')}"`, ...fault.headers },
      fault,
    )
  }
}

/** Answers with a file or a range of it, as truly as the fault allows. */
function send(
  request: IncomingMessage,
  response: ServerResponse,
  content: Buffer,
  headers: Record<string, string>,
  fault: Fault,
): void {
  if (fault.status !== undefined) return void response.writeHead(fault.status, headers).end()
  let body = fault.corrupt ? Buffer.from(content.map((byte) => byte ^ 0x55)) : content
  if (fault.extra !== undefined) body = Buffer.concat([body, Buffer.alloc(fault.extra)])
  const range = /^bytes=(\d+)-$/.exec(request.headers.range ?? '')
  const wanted =
    range === null || fault.ignoreRange || (request.headers['if-range'] ?? headers['etag']) !== headers['etag']
      ? undefined
      : Number(range[1])
  let status = 200
  if (wanted !== undefined) {
    const start = wanted + (fault.shiftRange ?? 0)
    if (start >= content.length)
      return void response.writeHead(416, { 'content-range': `bytes */${content.length}` }).end()
    headers['content-range'] = `bytes ${start}-${content.length - 1}/${fault.total ?? content.length}`
    body = body.subarray(start)
    status = 206
  }
  // With a surplus the length is left out: a peer that counts would not even let the surplus through.
  response.writeHead(
    status,
    fault.extra === undefined ? { ...headers, 'content-length': String(body.length) } : headers,
  )
  if (request.method === 'HEAD') return void response.end()
  if (fault.cutAfter !== undefined)
    return void response.write(body.subarray(0, fault.cutAfter), () => response.destroy())
  if (fault.stallAfter !== undefined) return void response.write(body.subarray(0, fault.stallAfter))
  if (fault.slowMs === undefined) return void response.end(body)
  const piece = Math.ceil(body.length / 50)
  let at = 0
  const timer = setInterval(() => {
    response.write(body.subarray(at, at + piece))
    at += piece
    if (at >= body.length) {
      clearInterval(timer)
      response.end()
    }
  }, fault.slowMs)
  response.on('close', () => clearInterval(timer))
}

function tree(files: Record<string, Buffer>): unknown[] {
  return Object.entries(files).map(([path, content]) => ({
    type: 'file',
    path,
    size: content.length,
    oid: gitHash(content),
    ...(isLfs(path) ? { lfs: { oid: sha256(content), size: content.length, pointerSize: 130 } } : {}),
  }))
}

function isLfs(name: string): boolean {
  return /\.(safetensors|gguf)$/.test(name) || name === 'tokenizer.json'
}

function origin(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Name of an LFS file's blob. */
export function sha256(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

/** Name of an ordinary file's blob. */
export function gitHash(content: Buffer): string {
  return createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex')
}

/** A checkpoint in shards, as far as the hub cares: names, sizes and an index. Bytes depend on the seed only. */
export function shardedRepo(shards = 3, bytes = 100_000, seed = 'maple'): Record<string, Buffer> {
  const names = Array.from(
    { length: shards },
    (_, i) => `model-${String(i + 1).padStart(5, '0')}-of-${String(shards).padStart(5, '0')}.safetensors`,
  )
  const files: Record<string, Buffer> = {
    '.gitattributes': Buffer.from('*.safetensors filter=lfs\n'),
    'README.md': Buffer.from('# A model\n'),
    'config.json': Buffer.from('{"model_type":"maple"}'),
    'generation_config.json': Buffer.from('{}'),
    'tokenizer.json': noise(`${seed} tokenizer`, 5000),
    'tokenizer_config.json': Buffer.from('{}'),
    'chat_template.jinja': Buffer.from('{{ messages }}'),
    'model.safetensors.index.json': Buffer.from(
      JSON.stringify({ weight_map: Object.fromEntries(names.map((name, i) => [`tensor.${i}`, name])) }),
    ),
    'model-flashhead.safetensors': noise(`${seed} extra`, 1000),
    'original/consolidated.pth': noise(`${seed} other`, 1000),
  }
  names.forEach((name, i) => (files[name] = noise(`${seed} ${i}`, bytes)))
  return files
}

function noise(seed: string, bytes: number): Buffer {
  const blocks: Buffer[] = []
  for (let i = 0; i * 64 < bytes; i++) blocks.push(createHash('sha512').update(`${seed} ${i}`).digest())
  return Buffer.concat(blocks).subarray(0, bytes)
}
