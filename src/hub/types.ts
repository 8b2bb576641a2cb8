/** An environment as {@link resolveModel} reads it, for example `process.env`. */
export type Env = Readonly<Record<string, string | undefined>>

/** How far a download is. Bytes of files already complete count as loaded. */
export interface DownloadProgress {
  readonly phase: 'download'
  readonly loadedBytes: number
  readonly totalBytes: number
}

/** What {@link resolveModel} takes beside the model's name. */
export interface ResolveOptions {
  /** Where `HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT` and the like are looked up. */
  readonly env: Env
  /** Look at this disk only, as if the hub were out of reach [false]. */
  readonly localOnly?: boolean | undefined
  /** Aborting rejects with the signal's reason; what was fetched is kept and resumed by the next call. */
  readonly signal?: AbortSignal | undefined
  /** Called at most ten times a second, and once at the end. What it throws is ignored. */
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined
  /** Told of things worth knowing at once: a rate limit being waited for, cached files used because the hub is down. */
  readonly onWarning?: ((message: string) => void) | undefined
  /** Pause before the first retry, in milliseconds; it doubles with each further one [500]. */
  readonly retryPauseMs?: number | undefined
}

/** Where a model's files are. */
export interface ResolvedModel {
  /** A folder holding config.json and its weights, or one GGUF file (the first part of a split one). */
  readonly path: string
  /** The repo id, or `undefined` where the name was a path on this disk. */
  readonly repoId: string | undefined
  /** The branch, tag or commit that was asked for. */
  readonly revision: string | undefined
  /** The commit the files are of. */
  readonly commit: string | undefined
  /** Everything that was passed to `onWarning`. */
  readonly warnings: readonly string[]
}
