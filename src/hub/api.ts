import { HubError } from '../errors.js'
import { type HubClient, type HubResponse, normalizeEtag, readBody } from './http.js'
import { isCommit, printable, staysInside } from './repo-id.js'
import { TransientFault } from './retry.js'

const maxListingBytes = 32 * 1024 * 1024
const maxEntries = 100_000
const maxPages = 100
const maxFileBytes = 2 ** 42
const maxWaitMs = 60 * 60 * 1000

/** What a repo holds at one commit. */
export interface Listing {
  readonly commit: string
  readonly files: ReadonlySet<string>
}

/** One file as the hub describes it. */
export interface RemoteFile {
  readonly name: string
  /** Name of its blob: the sha256 of an LFS file, else the git blob hash. */
  readonly etag: string
  readonly size: number
}

/** The repo is there and the revision is not: a wrong name, not a hub in trouble. */
export class RevisionMissingError extends HubError {}

/** A call's part of a request: how long to wait, and when to give up. */
export interface CallOptions {
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
}

/** Looks up the commit behind a revision and the files it has. One try. */
export async function listRepo(
  client: HubClient,
  id: string,
  revision: string,
  options: CallOptions,
): Promise<Listing> {
  const { json, response } = await getJson(
    client,
    `/api/models/${id}/revision/${encodeURIComponent(revision)}`,
    id,
    revision,
    options,
  )
  const { sha, siblings } = (json ?? {}) as { sha?: unknown; siblings?: unknown }
  if (typeof sha !== 'string' || !isCommit(sha)) throw badListing(response, 'it has no commit hash under "sha"')
  if (siblings === undefined) return { commit: sha, files: await listTree(client, id, sha, options) }
  if (!Array.isArray(siblings)) throw badListing(response, '"siblings" is not a list')
  const files = new Set<string>()
  for (const entry of siblings as unknown[])
    addName(files, (entry as { rfilename?: unknown } | null)?.rfilename, response)
  return { commit: sha, files }
}

/** The paged listing, for hubs whose short one has no file names. */
async function listTree(client: HubClient, id: string, commit: string, options: CallOptions): Promise<Set<string>> {
  const files = new Set<string>()
  let target: string | undefined = `/api/models/${id}/tree/${commit}?recursive=true`
  const seen = new Set<string>()
  for (let page = 0; target !== undefined; page++) {
    const { json, response }: { json: unknown; response: HubResponse } = await getJson(
      client,
      target,
      id,
      commit,
      options,
    )
    if (page >= maxPages || seen.has(target)) throw badListing(response, `it goes on after ${page} pages`)
    seen.add(target)
    if (!Array.isArray(json)) throw badListing(response, 'it is not a list')
    for (const entry of json as unknown[]) {
      const { type, path } = (entry ?? {}) as { type?: unknown; path?: unknown }
      if (type === 'file') addName(files, path, response)
    }
    target = nextPage(response)
  }
  return files
}

/** Asks for one file's etag and size. One try. */
export async function describeFile(
  client: HubClient,
  id: string,
  commit: string,
  name: string,
  options: CallOptions,
): Promise<RemoteFile> {
  const ask = async (
    method: 'HEAD' | 'GET',
  ): Promise<{ etag: string | undefined; size: number | undefined; response: HubResponse }> => {
    const response = await client.request({
      method,
      target: resolvePath(id, commit, name),
      stopAtFile: true,
      ...options,
    })
    try {
      throwForStatus(response, { client, id, revision: commit, name })
      const redirect = response.status >= 300
      const size = response.linked.size ?? (redirect ? undefined : response.headers['content-length'])
      return {
        etag: normalizeEtag(response.linked.etag ?? response.headers.etag),
        size: size === undefined ? undefined : Number(size),
        response,
      }
    } finally {
      response.discard()
    }
  }
  let answer = await ask('HEAD')
  // Some servers give no length to a HEAD.
  if (answer.size === undefined) answer = await ask('GET')
  const { etag, size, response } = answer
  const bad = (why: string): HubError =>
    new HubError('HUB_BAD_RESPONSE', `${response.address}: ${why}. Is ${client.endpoint} really a Hugging Face hub?`)
  if (response.linked.commit !== undefined && response.linked.commit !== commit) {
    throw bad(`asked for commit ${commit}, it answers of ${printable(response.linked.commit)}`)
  }
  if (etag === undefined) throw bad('no ETag says which version of the file this is')
  if (!isCommit(etag))
    throw bad(`its ETag, "${printable(etag)}", is neither a git hash nor a sha256, so the file could not be verified`)
  if (size === undefined || !Number.isSafeInteger(size) || size < 0 || size > maxFileBytes)
    throw bad('no usable length is given for the file')
  return { name, etag, size }
}

/** Path of a file below the endpoint. */
export function resolvePath(id: string, commit: string, name: string): string {
  return `/${id}/resolve/${commit}/${name.split('/').map(encodeURIComponent).join('/')}`
}

/** Turns every status that is not a success (or a redirect meant to be looked at) into the error it means. */
export function throwForStatus(
  response: HubResponse,
  about: { client: HubClient; id: string; revision: string; name?: string },
): void {
  const { status } = response
  if (status >= 200 && status < 400 && status !== 304) return
  response.discard()
  const { client, id, revision, name } = about
  if (status === 408 || status === 429 || status >= 500) {
    const what =
      status === 429 ? 'asks for fewer requests' : status === 408 ? 'gave up waiting' : 'has a fault of its own'
    const error = new HubError('HUB_UNREACHABLE', `${response.address} ${what} (status ${status}).`)
    const waitMs = retryAfterMs(response)
    if (waitMs > maxWaitMs)
      throw new HubError(
        'HUB_UNREACHABLE',
        `${error.message} It wants ${Math.ceil(waitMs / 60_000)} minutes of silence first.`,
      )
    throw new TransientFault(error, waitMs)
  }
  // A content server's refusal says nothing about the token, which it never gets.
  if (!response.fromHub)
    throw new HubError('HUB_BAD_RESPONSE', `The content server ${response.address} answered ${status}.`)
  const code = headerText(response, 'x-error-code')
  const page = `${client.endpoint}/${id}`
  if (code === 'GatedRepo' && (status === 401 || status === 403)) {
    const token = client.hasToken ? 'The token in use has no access' : 'No token is set'
    throw new HubError(
      'HUB_GATED',
      `${id} is gated: its owners decide who may fetch it. ${token}. Ask for access at ${page}, then set HF_TOKEN to a token of that account.`,
    )
  }
  if (code === 'RevisionNotFound')
    throw new RevisionMissingError(
      'HUB_NOT_FOUND',
      `${id} has no revision "${printable(revision)}". Its branches and tags are listed at ${page}/tree/main.`,
    )
  if (code === 'EntryNotFound' && name !== undefined)
    throw new HubError('HUB_NOT_FOUND', `${id} has no file "${printable(name)}" at revision ${printable(revision)}.`)
  if (headerText(response, 'x-error-message') === 'Access to this resource is disabled.') {
    throw new HubError('HUB_NOT_FOUND', `${id} has been disabled by the hub. See ${page}.`)
  }
  if (code === 'RepoNotFound' || status === 404) {
    const token = client.hasToken
      ? 'If it is private, the token in use has no access to it'
      : 'If it is private, set HF_TOKEN to a token that may read it'
    throw new HubError(
      'HUB_NOT_FOUND',
      `${client.endpoint} has no model ${id}, or hides it. Check the spelling. ${token}.`,
    )
  }
  if (status === 401) {
    throw new HubError(
      'HUB_AUTH',
      client.hasToken
        ? `${client.endpoint} does not accept the access token. Set HF_TOKEN to a valid one, or unset it for public models.`
        : `${client.endpoint} asks for an access token for ${id}. Set HF_TOKEN to one that may read it.`,
    )
  }
  if (status === 403) {
    throw new HubError(
      'HUB_AUTH',
      client.hasToken
        ? `The access token may not read ${id} (status 403). Give it read access to this repo, or set HF_TOKEN to another.`
        : `${client.endpoint} forbids access to ${id} without a token (status 403). Set HF_TOKEN to one that may read it.`,
    )
  }
  throw new HubError('HUB_BAD_RESPONSE', `${response.address} answered with status ${status}, which no hub should.`)
}

async function getJson(
  client: HubClient,
  target: string,
  id: string,
  revision: string,
  options: CallOptions,
): Promise<{ json: unknown; response: HubResponse }> {
  const response = await client.request({ method: 'GET', target, headers: { accept: 'application/json' }, ...options })
  throwForStatus(response, { client, id, revision })
  const body = await readBody(response, maxListingBytes)
  try {
    return { json: JSON.parse(body.toString('utf8')) as unknown, response }
  } catch {
    throw badListing(response, 'it is not JSON')
  }
}

function addName(files: Set<string>, name: unknown, response: HubResponse): void {
  if (typeof name !== 'string') throw badListing(response, 'an entry has no file name')
  if (!staysInside(name)) throw badListing(response, `the name "${printable(name)}" leads out of the repo's folder`)
  if (files.size >= maxEntries) throw badListing(response, `it has more than ${maxEntries} entries`)
  files.add(name)
}

function badListing(response: HubResponse, why: string): HubError {
  return new HubError(
    'HUB_BAD_RESPONSE',
    `The listing from ${response.address} cannot be used: ${why}. A proxy's or a network's sign-in page may have answered in the hub's place.`,
  )
}

/** The address under rel="next" in a Link header. Whether it may see the token is decided where all requests are made. */
function nextPage(response: HubResponse): string | undefined {
  const next = /<([^<>]*)>\s*;[^,<]*\brel="?next"?/i.exec(headerText(response, 'link') ?? '')?.[1]
  if (next === undefined) return undefined
  try {
    const url = new URL(next, response.address)
    if (url.protocol === 'https:' || url.protocol === 'http:') return url.href
  } catch {
    // Told below.
  }
  throw badListing(response, 'its link to the next page is no address')
}

/** The wait a server asks for: `Retry-After` in seconds or as a date, or the hub's own `RateLimit` header. */
function retryAfterMs(response: HubResponse): number {
  const text = headerText(response, 'retry-after')
  if (text !== undefined) {
    const ms = /^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) * 1000 : Date.parse(text) - Date.now()
    return Number.isFinite(ms) && ms > 0 ? ms : 0
  }
  const reset =
    response.status === 429 ? /;\s*r=0\b.*;\s*t=(\d+)/.exec(headerText(response, 'ratelimit') ?? '')?.[1] : undefined
  return reset === undefined ? 0 : Number(reset) * 1000
}

function headerText(response: HubResponse, name: string): string | undefined {
  const value = response.headers[name]
  return Array.isArray(value) ? value.join(', ') : value
}
