import { readRegularFile } from '../regular-file.js'
import type { RepoCache } from './cache.js'
import { type Selection, selectFiles, shardNames, splitParts } from './checkpoint.js'
import type { RepoId } from './repo-id.js'

/** What the cache holds of a repo at a revision. */
export interface KnownSnapshot {
  readonly commit: string
  /** The GGUF file that is the model, if it is one. */
  readonly entry: string | undefined
  /** Needed files that are not there; with an unreadable index, the index itself. */
  readonly missing: readonly string[]
  /** Whether the tokenizer is there too (a GGUF file holds its own). */
  readonly hasTokenizer: boolean
}

/** Looks at the cache alone, without the hub. `undefined`: the revision is not known here. */
export async function findSnapshot(
  cache: RepoCache,
  { id, revision, file }: RepoId,
): Promise<KnownSnapshot | undefined> {
  const commit = await cache.commitOf(revision)
  if (commit === undefined) return undefined
  const present = new Set<string>()
  const candidates = new Set([
    ...(await cache.snapshotFiles(commit)),
    ...(file === undefined ? [] : (splitParts(file) ?? [file])),
  ])
  for (const name of candidates) {
    if ((await cache.fileSize(commit, name)) !== undefined) present.add(name)
  }
  let selection: Selection
  try {
    selection = selectFiles(id, present, file)
  } catch {
    const needed = file === undefined ? ['config.json', 'its weights'] : (splitParts(file) ?? [file])
    return { commit, entry: undefined, missing: needed.filter((name) => !present.has(name)), hasTokenizer: false }
  }
  const { entry, index, weights } = selection
  const missing = weights.filter((name) => !present.has(name))
  if (index !== undefined) {
    try {
      missing.push(
        ...shardNames(id, (await readRegularFile(cache.filePath(commit, index))).toString()).filter(
          (name) => !present.has(name),
        ),
      )
    } catch {
      missing.push(index)
    }
  }
  return { commit, entry, missing, hasTokenizer: entry !== undefined || present.has('tokenizer.json') }
}
