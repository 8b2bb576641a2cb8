import { readdir, stat, statfs } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { HubError, InvalidArgumentError, ModelError, StorageError } from '../errors.js'
import { readRegularFile } from '../regular-file.js'
import { RevisionMissingError, type RemoteFile, describeFile, listRepo } from './api.js'
import { RepoCache } from './cache.js'
import { type Selection, ggufHeads, indexFile, selectFiles, shardNames, singleFile } from './checkpoint.js'
import { EtagChanged, downloadBlob } from './download.js'
import { type HubEnvironment, expandPath, readEnvironment } from './environment.js'
import { HubClient } from './http.js'
import { availableMemory, memoryWarning } from './machine.js'
import { partialBytes } from './partial.js'
import { DownloadMeter } from './progress.js'
import { type RepoId, isCommit, parseRepoId, printable } from './repo-id.js'
import { type RetryPolicy, withRetries } from './retry.js'
import { findSnapshot } from './snapshot.js'
import { cacheFault } from './storage.js'
import type { ResolveOptions, ResolvedModel } from './types.js'

/** The small model that comes with the package. */
const sprout = fileURLToPath(new URL('../../models/sprout', import.meta.url))

const parallelFiles = 4
const parallelQueries = 8
const maxTextBytes = 512 * 1024 * 1024

/**
 * Finds a model's files: a path on this disk as it is, `sprout` in the package, a name on the hub through the official cache, fetching what is missing.
 *
 * @throws MapleError with one of the codes `MODEL_NOT_FOUND`, `INVALID_CHECKPOINT`, `INVALID_ARGUMENT`, `HUB_UNREACHABLE`, `HUB_AUTH`, `HUB_GATED`, `HUB_NOT_FOUND`,
 * `HUB_BAD_RESPONSE`, `DISK_FULL`, `CACHE_NOT_WRITABLE`, `OFFLINE`, `READ_FAILED`, `WRITE_FAILED`
 */
export async function resolveModel(spec: string, options: ResolveOptions): Promise<ResolvedModel> {
  if (typeof spec !== 'string' || spec.trim() === '' || spec.includes('\0')) {
    throw new InvalidArgumentError(
      'INVALID_ARGUMENT',
      'A model is named by a folder, a GGUF file, or a name on the hub such as deepgrove/maple-preview.',
      { param: 'model' },
    )
  }
  if (typeof options !== 'object' || options === null || typeof (options as Partial<ResolveOptions>).env !== 'object') {
    throw new InvalidArgumentError(
      'INVALID_ARGUMENT',
      '`options` must be an object with `env`: process.env, for one.',
      {
        param: 'options',
      },
    )
  }
  options.signal?.throwIfAborted()
  const path = spec.startsWith('~') ? expandPath(spec, options.env) : resolve(spec)
  const local = { repoId: undefined, revision: undefined, commit: undefined, warnings: [] }
  if (await exists(path)) return { ...local, path: (await onlyGguf(path)) ?? path }
  if (spec === 'sprout') {
    if (await exists(sprout)) return { ...local, path: sprout }
    throw new ModelError(
      'MODEL_NOT_FOUND',
      'This copy of maple-cpu came without its small model, sprout. Reinstall it, or name another model.',
    )
  }
  if (/^(?:[./~\\]|[A-Za-z]:[\\/])/.test(spec))
    throw new ModelError('MODEL_NOT_FOUND', `There is no file or folder ${printable(path)}.`)
  const repo = parseRepoId(spec)
  const environment = readEnvironment(options.env)
  return new Resolution(repo, environment, options).run()
}

/** The GGUF file (of a split one the first part) of a folder that holds one and no other model. */
async function onlyGguf(folder: string): Promise<string | undefined> {
  const names = new Set(await readdir(folder).catch(() => []))
  if (names.has('config.json') || names.has(singleFile) || names.has(indexFile)) return undefined
  const heads = ggufHeads(names)
  if (heads.length > 1)
    throw new ModelError(
      'MODEL_NOT_FOUND',
      `${printable(folder)} holds several GGUF models. Name one of them: ${heads.slice(0, 8).map(printable).join(', ')}.`,
    )
  return heads[0] === undefined ? undefined : join(folder, heads[0])
}

/** What the steps of one fetch share. */
interface FetchJob {
  readonly client: HubClient
  readonly commit: string
  readonly meter: DownloadMeter
  /** Ends all of it. */
  readonly stop: AbortController
  readonly signal: AbortSignal
}

/** One call's walk from a name to files. */
class Resolution {
  readonly #repo: RepoId
  readonly #environment: HubEnvironment
  readonly #options: ResolveOptions
  readonly #cache: RepoCache
  readonly #warnings: string[] = []

  constructor(repo: RepoId, environment: HubEnvironment, options: ResolveOptions) {
    this.#repo = repo
    this.#environment = environment
    this.#options = options
    this.#cache = new RepoCache(environment.cacheDir, repo.id, environment.symlinks)
  }

  async run(): Promise<ResolvedModel> {
    const { id, revision } = this.#repo
    const known = await findSnapshot(this.#cache, this.#repo)
    const cached = known?.missing.length === 0 ? this.#done(known.commit, known.entry) : undefined
    if (this.#environment.offline || this.#options.localOnly) {
      if (cached !== undefined) return cached
      throw this.#offlineError(known?.missing)
    }
    // A commit never changes. Without a tokenizer, though, what Python fetched may not be all the repo has.
    if (cached !== undefined && isCommit(revision) && known?.hasTokenizer) return cached
    try {
      return await this.#online(cached === undefined ? 5 : 0)
    } catch (error) {
      this.#options.signal?.throwIfAborted()
      const fault = cacheFault(error, this.#environment.cacheDir)
      const passing =
        (fault instanceof HubError && !(fault instanceof RevisionMissingError)) || fault instanceof StorageError
      if (cached === undefined || !passing) throw fault
      this.#warn(
        `${fault.message} The files of ${id} already in the cache (commit ${cached.commit?.slice(0, 8)}) are used.`,
      )
      return cached
    }
  }

  /** Asks the hub, a few times where there is nothing to fall back on, and brings the snapshot up to date. */
  async #online(retries: number): Promise<ResolvedModel> {
    const { id, revision, file } = this.#repo
    const client = new HubClient(this.#environment.endpoint, await this.#environment.token())
    try {
      const call = { timeoutMs: this.#environment.etagTimeoutMs, signal: this.#options.signal }
      const { commit, files } = await withRetries(this.#policy(retries), () => listRepo(client, id, revision, call))
      const selection = selectFiles(id, files, file)
      await this.#fetch(client, commit, files, selection)
      await this.#cache.writeRef(revision, commit).catch(() => {
        // In a cache that is read-only but complete, the ref is merely not brought up to date.
      })
      return this.#done(commit, selection.entry)
    } finally {
      client.close()
    }
  }

  /** Brings every selected file into the snapshot; the weights last, so that a snapshot with weights has its texts too. */
  async #fetch(
    client: HubClient,
    commit: string,
    listed: ReadonlySet<string>,
    { texts, weights, index }: Selection,
  ): Promise<void> {
    const meter = new DownloadMeter(this.#options.onProgress)
    const stop = new AbortController()
    const signal =
      this.#options.signal === undefined ? stop.signal : AbortSignal.any([this.#options.signal, stop.signal])
    const job: FetchJob = { client, commit, meter, stop, signal }
    const shards = [...weights]
    if (index !== undefined) {
      await this.#download(job, await this.#describe(job, [index], maxTextBytes))
      for (const name of shardNames(
        this.#repo.id,
        (await readRegularFile(this.#cache.filePath(commit, index))).toString(),
      )) {
        if (!listed.has(name))
          throw new ModelError('MODEL_NOT_FOUND', `${this.#repo.id} has no file ${name}, which its ${index} names.`)
        shards.push(name)
      }
    }
    const textFiles = await this.#describe(job, texts, maxTextBytes)
    const weightFiles = await this.#describe(job, shards)
    if (textFiles.length + weightFiles.length > 0) await this.#checkSpace([...textFiles, ...weightFiles])
    meter.start()
    await this.#download(job, textFiles)
    if (weightFiles.length > 0) await this.#checkMemory(commit, meter.total(shards))
    await this.#download(job, weightFiles)
    meter.finish()
  }

  /** Asks for the size and etag of those files that the snapshot lacks. */
  async #describe(job: FetchJob, names: readonly string[], limit = Infinity): Promise<RemoteFile[]> {
    const absent: string[] = []
    for (const name of names) {
      const size = await this.#cache.fileSize(job.commit, name)
      if (size === undefined) absent.push(name)
      else job.meter.add(name, size, size)
    }
    return inParallel(absent, parallelQueries, job.stop, async (name) => {
      const file = await this.#ask(job, name)
      if (file.size > limit)
        throw new HubError(
          'HUB_BAD_RESPONSE',
          `${name} of ${this.#repo.id} has ${file.size} bytes, far more than such a file should.`,
        )
      return file
    })
  }

  async #ask({ client, commit, meter, signal }: FetchJob, name: string): Promise<RemoteFile> {
    const call = { timeoutMs: this.#environment.etagTimeoutMs, signal }
    const file = await withRetries(this.#policy(5, signal), () =>
      describeFile(client, this.#repo.id, commit, name, call),
    )
    meter.add(name, 0, file.size)
    return file
  }

  async #download(job: FetchJob, files: readonly RemoteFile[]): Promise<void> {
    if (files.length === 0) return
    await this.#cache.prepare()
    await inParallel(files, parallelFiles, job.stop, async (described) => {
      let file = described
      for (let changes = 0; ; changes++) {
        try {
          await this.#downloadFile(job, file)
          return
        } catch (error) {
          if (!(error instanceof EtagChanged)) throw error
          if (changes >= 2)
            throw new HubError(
              'HUB_BAD_RESPONSE',
              `${job.client.endpoint} names another etag for ${file.name} each time it is asked, so the file cannot be verified.`,
            )
          file = await this.#ask(job, file.name)
        }
      }
    })
  }

  async #downloadFile({ client, commit, meter, signal }: FetchJob, file: RemoteFile): Promise<void> {
    const fresh =
      (await this.#cache.blobSize(file.etag)) !== file.size &&
      (await downloadBlob(file, {
        client,
        cache: this.#cache,
        id: this.#repo.id,
        commit,
        policy: this.#policy(5, signal),
        timeoutMs: this.#environment.downloadTimeoutMs,
        onBytes: (bytes) => meter.set(file.name, bytes),
      }))
    await this.#cache.link(commit, file.name, file.etag, fresh)
    meter.set(file.name, file.size)
  }

  /** Compares what is still to come with the room on the disk, before anything is fetched. */
  async #checkSpace(files: readonly RemoteFile[]): Promise<void> {
    let needed = 0
    for (const { etag, size } of files) {
      if ((await this.#cache.blobSize(etag)) !== size)
        needed += Math.max(0, size - (await partialBytes(this.#cache.blobs, etag)))
    }
    await this.#cache.prepare()
    const { bavail, bsize } = await statfs(this.#cache.blobs)
    const free = bavail * bsize
    if (needed <= free) return
    throw new StorageError(
      'DISK_FULL',
      `${this.#repo.id} needs ${gigabytes(needed)} more in ${this.#cache.root}, where ${gigabytes(free)} are free. Free some space, or set HF_HUB_CACHE to a folder on a larger disk.`,
    )
  }

  /** Says beforehand where the model will not fit the memory. */
  async #checkMemory(commit: string, weightBytes: number): Promise<void> {
    const config = await readRegularFile(this.#cache.filePath(commit, 'config.json')).then(String, () => undefined)
    const warning = memoryWarning(config, weightBytes, availableMemory())
    if (warning !== undefined) this.#warn(warning)
  }

  #done(commit: string, entry: string | undefined): ResolvedModel {
    const path = entry === undefined ? this.#cache.snapshotPath(commit) : this.#cache.filePath(commit, entry)
    return { path, repoId: this.#repo.id, revision: this.#repo.revision, commit, warnings: this.#warnings }
  }

  #offlineError(missing: readonly string[] | undefined): HubError {
    const { id, revision } = this.#repo
    const what =
      missing === undefined
        ? `nothing of ${id} at revision ${revision} is in the cache`
        : `${missing.slice(0, 6).join(', ')}${missing.length > 6 ? ` and ${missing.length - 6} more` : ''} of ${id} ${missing.length === 1 ? 'is' : 'are'} not in the cache`
    const [why, how] = this.#options.localOnly
      ? ['Only this disk is looked at', 'Fetch it first']
      : [
          'HF_HUB_OFFLINE is set',
          'Start once with HF_HUB_OFFLINE=0, or fill the cache on another machine and copy it here',
        ]
    return new HubError(
      'OFFLINE',
      `${why}, and ${what} ${this.#environment.cacheDir}. ${how} ("hf download ${id}"), or name a local folder instead.`,
    )
  }

  #policy(retries: number, signal = this.#options.signal): RetryPolicy {
    return { retries, pauseMs: this.#options.retryPauseMs ?? 500, signal, onWait: (message) => this.#warn(message) }
  }

  #warn(message: string): void {
    this.#warnings.push(message)
    try {
      this.#options.onWarning?.(message)
    } catch {
      // A listener's own fault must not cost the download.
    }
  }
}

/** Runs `work` on every item, a few at a time, and stops the others at the first failure, which is thrown once all have ended. */
async function inParallel<T, R>(
  items: readonly T[],
  width: number,
  stop: AbortController,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = []
  const failures: unknown[] = []
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      const at = next++
      try {
        results[at] = await work(items[at] as T)
      } catch (error) {
        failures.push(error)
        stop.abort(error)
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane))
  if (failures.length > 0) throw failures[0]
  return results
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

function gigabytes(bytes: number): string {
  return bytes < 1e8 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`
}
