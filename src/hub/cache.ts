import { randomBytes } from 'node:crypto'
import {
  access,
  constants,
  copyFile,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { readRegularFile } from '../regular-file.js'
import { isCommit } from './repo-id.js'
import { hasCode } from './storage.js'

/** One repo's folder in the official cache layout: `blobs/ETAG`, `refs/REVISION`, `snapshots/COMMIT/FILE`. */
export class RepoCache {
  /** The cache folder, shared by all repos. */
  readonly root: string
  readonly #folder: string
  #symlinks: boolean

  constructor(root: string, id: string, symlinks: boolean) {
    this.root = root
    this.#folder = join(root, `models--${id.replace('/', '--')}`)
    this.#symlinks = symlinks
  }

  get blobs(): string {
    return join(this.#folder, 'blobs')
  }

  blobPath(etag: string): string {
    return join(this.blobs, etag)
  }

  snapshotPath(commit: string): string {
    return join(this.#folder, 'snapshots', commit)
  }

  filePath(commit: string, name: string): string {
    return join(this.snapshotPath(commit), ...name.split('/'))
  }

  /** Makes the folders, and marks the cache for backup programs as the official clients do. */
  async prepare(): Promise<void> {
    await mkdir(this.blobs, { recursive: true }).catch(async (error: unknown) => {
      // On a read-only file system Node says that something is missing; ask the system itself.
      await access(await nearestFolder(this.blobs), constants.W_OK)
      throw error
    })
    await writeFile(
      join(this.root, 'CACHEDIR.TAG'),
      'Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag: backup programs may skip this folder.\n# See https://bford.info/cachedir/\n',
      { flag: 'wx' },
    ).catch(() => {})
  }

  /** The commit last seen behind a revision, or `undefined`. */
  async commitOf(revision: string): Promise<string | undefined> {
    if (isCommit(revision)) return revision
    const path = join(this.#folder, 'refs', ...revision.split('/'))
    const text = await readRegularFile(path).then(String, () => '')
    return isCommit(text.trim()) ? text.trim() : undefined
  }

  /** Notes the commit behind a branch or tag. */
  async writeRef(revision: string, commit: string): Promise<void> {
    if (revision === commit || (await this.commitOf(revision)) === commit) return
    const path = join(this.#folder, 'refs', ...revision.split('/'))
    await mkdir(dirname(path), { recursive: true })
    await replaceWith(path, (temporary) => writeFile(temporary, commit))
  }

  /** Size of a file of a snapshot, or `undefined` where it is missing or its link leads nowhere. */
  async fileSize(commit: string, name: string): Promise<number | undefined> {
    return sizeOf(this.filePath(commit, name))
  }

  /** Size of a finished blob, or `undefined`. */
  async blobSize(etag: string): Promise<number | undefined> {
    return sizeOf(this.blobPath(etag))
  }

  /** Names of the files at the top of a snapshot. */
  async snapshotFiles(commit: string): Promise<string[]> {
    return readdir(this.snapshotPath(commit)).catch(() => [])
  }

  /** Moves a finished file to its blob's place; whoever has the old file open keeps it. */
  async publish(temporary: string, etag: string): Promise<void> {
    await sync(temporary)
    await rename(temporary, this.blobPath(etag))
  }

  /**
   * Lets a snapshot's file point to its blob. Where links are not allowed, the file itself is put there: moved when it was `fresh`ly fetched, else copied,
   * since another snapshot may point to the blob.
   */
  async link(commit: string, name: string, etag: string, fresh: boolean): Promise<void> {
    const path = this.filePath(commit, name)
    const blob = this.blobPath(etag)
    await mkdir(dirname(path), { recursive: true })
    if (this.#symlinks) {
      const target = relative(dirname(path), blob)
      if ((await readlink(path).catch(() => undefined)) === target) return
      try {
        await replaceWith(path, (temporary) => symlink(target, temporary))
        return
      } catch (error) {
        if (!hasCode(error, 'EPERM', 'EACCES', 'ENOSYS', 'EOPNOTSUPP', 'ENOTSUP', 'EINVAL', 'UNKNOWN', 'ENOENT'))
          throw error
        // ENOENT is what some systems say to renaming a link. A folder that takes no file either will say so below.
        this.#symlinks = false
      }
    }
    try {
      if (fresh) await rename(blob, path)
      else await replaceWith(path, (temporary) => copyFile(blob, temporary))
    } catch (error) {
      // Another process may have moved the same blob to the same place.
      const there = await lstat(path).catch(() => undefined)
      if (!hasCode(error, 'ENOENT') || !there?.isFile()) throw error
    }
  }
}

/** Makes something under a temporary name next to `path` and renames it there, so that no reader sees half of it. */
async function replaceWith(path: string, make: (temporary: string) => Promise<void>): Promise<void> {
  const temporary = `${path}.${randomBytes(4).toString('hex')}.tmp`
  try {
    await make(temporary)
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {})
    throw error
  }
}

async function nearestFolder(path: string): Promise<string> {
  const parent = dirname(path)
  return parent === path || (await lstat(path).catch(() => undefined)) !== undefined ? path : nearestFolder(parent)
}

async function sizeOf(path: string): Promise<number | undefined> {
  const found = await stat(path).catch(() => undefined)
  return found?.isFile() ? found.size : undefined
}

async function sync(path: string): Promise<void> {
  const file = await open(path, 'r+')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}
