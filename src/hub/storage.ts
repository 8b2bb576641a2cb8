import { StorageError } from '../errors.js'

/** Whether a file-system call failed with one of these codes. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return codes.includes((error as NodeJS.ErrnoException | null | undefined)?.code ?? '')
}

/** A fault of the cache's disk in words, with what to do; anything else passes through. */
export function cacheFault(error: unknown, cacheDir: string): unknown {
  if (hasCode(error, 'ENOSPC', 'EDQUOT')) {
    return new StorageError(
      'DISK_FULL',
      `The disk (or the quota) holding ${cacheDir} is full. Free some space, or set HF_HUB_CACHE to a folder on another disk; what was fetched is kept and resumed.`,
      {
        cause: error,
      },
    )
  }
  if (hasCode(error, 'EFBIG')) {
    return new StorageError(
      'DISK_FULL',
      `The file system holding ${cacheDir} does not take files this large. Set HF_HUB_CACHE to a folder on another one.`,
      { cause: error },
    )
  }
  if (hasCode(error, 'EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST')) {
    const why = hasCode(error, 'EROFS')
      ? 'it is on a read-only file system'
      : hasCode(error, 'ENOTDIR', 'EEXIST')
        ? 'a file is in the place of a folder'
        : 'permission is denied'
    return new StorageError(
      'CACHE_NOT_WRITABLE',
      `The cache folder ${cacheDir} cannot be written: ${why}. Set HF_HUB_CACHE to a folder this user may write to.`,
      { cause: error },
    )
  }
  const { syscall, code } = error instanceof Error ? (error as NodeJS.ErrnoException) : {}
  if (syscall !== undefined) {
    const kind = ['read', 'open', 'stat', 'scandir'].includes(syscall) ? 'READ_FAILED' : 'WRITE_FAILED'
    return new StorageError(kind, `The cache folder ${cacheDir} failed in "${syscall}": ${code}.`, { cause: error })
  }
  return error
}
