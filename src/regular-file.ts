import { type Stats, constants } from 'node:fs'
import { open } from 'node:fs/promises'

/**
 * Reads a file. What is no regular file (a pipe, a device, a folder) is refused before a byte of it is read: a pipe that nobody
 * writes to never ends, and some devices never do.
 *
 * @throws Error of the system, or one that says what was found instead
 */
export async function readRegularFile(path: string): Promise<Buffer> {
  // Opened without waiting for a pipe's other end. Windows has no such flag, and no such files.
  const flags = constants.O_RDONLY | ((constants.O_NONBLOCK as number | undefined) ?? 0)
  const file = await open(path, flags)
  try {
    const found = await file.stat()
    if (!found.isFile()) {
      throw new Error(`it is ${kind(found)}; expected a regular file. Put the file itself in its place.`)
    }
    return await file.readFile()
  } finally {
    await file.close()
  }
}

function kind(found: Stats): string {
  if (found.isDirectory()) return 'a folder'
  if (found.isFIFO()) return 'a pipe'
  return found.isSocket() ? 'a socket' : 'a device'
}
