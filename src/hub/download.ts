import { type Hash, createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { HubError } from '../errors.js'
import { type RemoteFile, resolvePath, throwForStatus } from './api.js'
import type { RepoCache } from './cache.js'
import { type HubClient, type HubResponse, normalizeEtag } from './http.js'
import { type Partial, acquirePartial, removeAbandoned } from './partial.js'
import { type RetryPolicy, TransientFault, withRetries } from './retry.js'

/** Bytes that must be gained between two faults for the tries to be counted anew. */
const progressBytes = 1024 * 1024
/** A body that fails its check is fetched again from the start this often. */
const maxRestarts = 3

/** What fetching one blob takes. */
export interface DownloadOptions {
  readonly client: HubClient
  readonly cache: RepoCache
  readonly id: string
  readonly commit: string
  readonly policy: RetryPolicy
  readonly timeoutMs: number
  /** Told how many bytes of the file are here. */
  readonly onBytes: (bytes: number) => void
}

/** The hub now names another etag than when the file was described. */
export class EtagChanged extends Error {}

/** Fetches one file's blob into the cache, or waits for the process that does; says whether this call fetched it. */
export async function downloadBlob(file: RemoteFile, options: DownloadOptions): Promise<boolean> {
  const { cache, commit, policy, onBytes } = options
  // Where links are not allowed, the finished file is in the snapshot, not among the blobs.
  const isDone = async (): Promise<boolean> =>
    (await cache.blobSize(file.etag)) === file.size || (await cache.fileSize(commit, file.name)) === file.size
  const partial = await acquirePartial({
    folder: cache.blobs,
    etag: file.etag,
    signal: policy.signal,
    isDone,
    onWait: onBytes,
  })
  if (partial === undefined) {
    onBytes(file.size)
    return false
  }
  let finished = false
  try {
    await new BlobDownload(file, partial, options).run()
    await cache.publish(partial.path, file.etag)
    finished = true
  } finally {
    if (finished) partial.published()
    else await partial.release()
  }
  await removeAbandoned(cache.blobs, file.etag)
  return true
}

/** Fills one private file until it is the blob its etag names. */
class BlobDownload {
  readonly #file: RemoteFile
  readonly #partial: Partial
  readonly #options: DownloadOptions
  #offset = 0
  #hash: Hash
  /** Etag of the content server's own, to make sure that a resumed part is of the same body. */
  #contentEtag: string | undefined
  #useRange = true
  #restarts = 0

  constructor(file: RemoteFile, partial: Partial, options: DownloadOptions) {
    this.#file = file
    this.#partial = partial
    this.#options = options
    this.#hash = this.#newHash()
  }

  async run(): Promise<void> {
    const handle = await open(this.#partial.path, 'r+')
    try {
      await this.#readBack(handle)
      await withRetries(this.#options.policy, async () => {
        const before = this.#offset
        try {
          if (this.#offset < this.#file.size || this.#file.size === 0) await this.#fetch(handle)
          await this.#verify(handle)
        } catch (error) {
          if (error instanceof TransientFault && this.#offset - before >= progressBytes) error.progressed = true
          throw error
        }
      })
    } finally {
      await handle.close()
    }
  }

  /** Takes in what an earlier owner left. */
  async #readBack(handle: FileHandle): Promise<void> {
    const { size } = await handle.stat()
    if (size > this.#file.size) return this.#restart(handle)
    const buffer = Buffer.allocUnsafe(1024 * 1024)
    while (this.#offset < size) {
      this.#options.policy.signal?.throwIfAborted()
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, this.#offset)
      if (bytesRead === 0) break
      this.#hash.update(buffer.subarray(0, bytesRead))
      this.#offset += bytesRead
    }
    this.#options.onBytes(this.#offset)
  }

  async #fetch(handle: FileHandle): Promise<void> {
    const { client, id, commit, timeoutMs, policy } = this.#options
    const ranged = this.#offset > 0 && this.#useRange
    if (!ranged && this.#offset > 0) await this.#restart(handle)
    this.#useRange = true
    const response = await client.request({
      method: 'GET',
      target: resolvePath(id, commit, this.#file.name),
      headers: ranged
        ? {
            range: `bytes=${this.#offset}-`,
            ...(this.#contentEtag === undefined ? {} : { 'if-range': this.#contentEtag }),
          }
        : {},
      timeoutMs,
      signal: policy.signal,
    })
    try {
      await this.#checkHead(response, ranged, handle)
      for await (const chunk of response.body()) {
        if (this.#offset + chunk.length > this.#file.size)
          await this.#fail(handle, `goes on after the ${this.#file.size} bytes the hub gave as its length`)
        for (let at = 0; at < chunk.length;) {
          at += (await handle.write(chunk, at, chunk.length - at, this.#offset + at)).bytesWritten
        }
        this.#hash.update(chunk)
        this.#offset += chunk.length
        this.#options.onBytes(this.#offset)
      }
    } finally {
      response.discard()
    }
    if (this.#offset < this.#file.size) {
      throw new TransientFault(
        new HubError(
          'HUB_UNREACHABLE',
          `${response.address} ended ${this.#file.name} after ${this.#offset} of ${this.#file.size} bytes.`,
        ),
      )
    }
  }

  /** Makes sure that the body to come is the rest (or the whole) of the right file; starts the file again where it is the whole. */
  async #checkHead(response: HubResponse, ranged: boolean, handle: FileHandle): Promise<void> {
    const { client, id, commit } = this.#options
    const { headers, status } = response
    if (status === 416 && ranged) await this.#fail(handle, `has nothing to give from byte ${this.#offset} on`)
    throwForStatus(response, { client, id, revision: commit, name: this.#file.name })
    const etag = normalizeEtag(response.linked.etag ?? (response.fromHub ? headers.etag : undefined))
    if (etag !== undefined && etag !== this.#file.etag) throw new EtagChanged()
    if (status !== 200 && !(status === 206 && ranged)) await this.#fail(handle, `is answered with status ${status}`)
    const encoding = headers['content-encoding']
    if (encoding !== undefined && encoding !== 'identity')
      await this.#fail(handle, `comes in the encoding "${encoding.slice(0, 20)}", which was not asked for`)
    if (status === 206) {
      const range = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(headers['content-range']?.trim() ?? '')
      const [start, end, total] = range?.slice(1) ?? []
      if (Number(start) !== this.#offset)
        await this.#fail(
          handle,
          `was asked for from byte ${this.#offset} on, and comes from byte ${start ?? 'nowhere'}`,
        )
      if ((total !== '*' && Number(total) !== this.#file.size) || Number(end) >= this.#file.size) {
        await this.#fail(handle, `has ${total} bytes now instead of ${this.#file.size}`)
      }
    } else if (ranged) {
      await this.#restart(handle)
    }
    const length = headers['content-length']
    if (status === 200 && length !== undefined && Number(length) !== this.#file.size) {
      await this.#fail(handle, `comes with ${length} bytes instead of ${this.#file.size}`)
    }
    const contentEtag = response.fromHub ? undefined : headers.etag
    if (
      status === 206 &&
      this.#contentEtag !== undefined &&
      contentEtag !== undefined &&
      contentEtag !== this.#contentEtag
    ) {
      await this.#fail(handle, 'changed on the content server between two parts')
    }
    this.#contentEtag = contentEtag?.startsWith('W/') ? undefined : contentEtag
  }

  async #verify(handle: FileHandle): Promise<void> {
    const found = this.#hash.copy().digest('hex')
    if (found === this.#file.etag) return
    await this.#fail(
      handle,
      `arrived damaged: its ${this.#file.etag.length === 64 ? 'sha256' : 'git hash'} is ${found} instead of ${this.#file.etag}`,
    )
  }

  /** Gives up what is here and has the file fetched again from its start, a few times. */
  async #fail(handle: FileHandle, what: string): Promise<never> {
    const started = this.#offset
    await this.#restart(handle)
    this.#useRange = false
    const error = new HubError(
      'HUB_BAD_RESPONSE',
      `${this.#file.name} from ${this.#options.client.endpoint} ${what}. A proxy on the way may be at fault; try again, or set HF_ENDPOINT to another mirror.`,
    )
    this.#restarts += 1
    if (this.#restarts > maxRestarts) throw error
    const fault = new TransientFault(error)
    fault.progressed = started > 0
    throw fault
  }

  async #restart(handle: FileHandle): Promise<void> {
    await handle.truncate(0)
    this.#offset = 0
    this.#contentEtag = undefined
    this.#hash = this.#newHash()
    this.#options.onBytes(0)
  }

  #newHash(): Hash {
    if (this.#file.etag.length === 64) return createHash('sha256')
    return createHash('sha1').update(`blob ${this.#file.size}\0`)
  }
}
