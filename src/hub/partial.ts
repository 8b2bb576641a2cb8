import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { copyFile, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { hasCode } from './storage.js'

/*
 * An unfinished blob has one owner, named in the file's name: `ETAG.maple-PLACE-PID-START-RANDOM.incomplete`. PLACE stands for machine, boot and
 * process-id namespace, START for when the process began, since ids are used again. A file its owner let go is `ETAG.maple-free-RANDOM.incomplete`. Taking over is a
 * rename, which only one taker can win. Nothing here is needed for the result to be right, since each writer has its own file and verifies it: it saves
 * fetching the same bytes twice.
 */

/** An owner touches its file this often, also while it waits for the hub. */
const heartbeatMs = 5000
/** An owner that left its file untouched this long is not waited for: it is stopped, or on another machine and gone. */
const silenceMs = 30_000
/** A file on which nothing happened for this long needs no watching. */
const longAgoMs = 10 * 60 * 1000

const suffix = '.incomplete'

/** A private, unfinished file of ours. */
export interface Partial {
  readonly path: string
  /** Lets go: the file is kept for a later start when it holds something, else removed. */
  release(): Promise<void>
  /** Stops the heartbeat; the file has been moved into place. */
  published(): void
}

/** What {@link acquirePartial} needs to know. */
export interface AcquireOptions {
  readonly folder: string
  readonly etag: string
  readonly signal: AbortSignal | undefined
  /** Whether the finished blob has appeared. */
  readonly isDone: () => Promise<boolean>
  /** Told the size of the file that another process is writing. */
  readonly onWait: (bytes: number) => void
}

interface Found {
  readonly path: string
  readonly size: number
  /** Changes as long as someone works on it. */
  readonly sign: string
  readonly touchedAt: number
  readonly owner: 'none' | 'alive' | 'dead' | 'elsewhere'
}

/**
 * Gives a private file to fetch the blob into: an abandoned one where there is one, else a new one; or `undefined` when another process finished the blob
 * meanwhile. While a living process works on the same blob this waits for it.
 */
export async function acquirePartial(options: AcquireOptions): Promise<Partial | undefined> {
  const { folder, etag, signal, isDone, onWait } = options
  const watched = new Map<string, { sign: string; since: number }>()
  /** Whether a file's owner must be taken to be at work. */
  const isHeld = (file: Found): boolean => {
    if (file.owner === 'none' || file.owner === 'dead') return false
    if (Date.now() - file.touchedAt > longAgoMs) return false
    const before = watched.get(file.path)
    if (before?.sign !== file.sign) watched.set(file.path, { sign: file.sign, since: performance.now() })
    else if (performance.now() - before.since > silenceMs) return false
    return true
  }
  for (;;) {
    signal?.throwIfAborted()
    if (await isDone()) return undefined
    const found = await list(folder, etag)
    const held = found.filter(isHeld)
    if (held.length > 0) {
      onWait(Math.max(...held.map((file) => file.size)))
      await pause(200 + Math.random() * 100, signal)
      continue
    }
    const own = (await adopt(folder, etag, found)) ?? (await create(folder, etag))
    // Of several that came at the same moment, all but at most one see another and step back.
    const rivals = (await list(folder, etag)).filter((file) => file.path !== own.path && isHeld(file))
    if (rivals.length === 0 && !(await isDone())) return own
    await own.release()
    await pause(20 + Math.random() * 200, signal)
  }
}

/** Removes what dead owners left of a blob that is complete. */
export async function removeAbandoned(folder: string, etag: string): Promise<void> {
  for (const file of await list(folder, etag)) {
    if (file.owner === 'none' || file.owner === 'dead') await rm(file.path, { force: true }).catch(() => {})
  }
}

/** Bytes of a blob that lie in unfinished files, whoever owns them. */
export async function partialBytes(folder: string, etag: string): Promise<number> {
  return Math.max(0, ...(await list(folder, etag)).map((file) => file.size))
}

async function list(folder: string, etag: string): Promise<Found[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return []
    throw error
  })
  const found: Found[] = []
  for (const name of names) {
    if (!name.startsWith(`${etag}.maple-`) || !name.endsWith(suffix)) continue
    const path = join(folder, name)
    const owner = ownerState(name.slice(`${etag}.maple-`.length, -suffix.length))
    const { size, mtimeMs } = (await stat(path).catch(() => undefined)) ?? {}
    if (size !== undefined) found.push({ path, size, sign: `${size} ${mtimeMs}`, touchedAt: mtimeMs ?? 0, owner })
  }
  return found
}

/** Takes the fullest file that has no living owner; the other abandoned ones are removed. */
async function adopt(folder: string, etag: string, found: readonly Found[]): Promise<Partial | undefined> {
  let own: Partial | undefined
  const abandoned = found.filter((file) => file.owner !== 'alive').sort((a, b) => b.size - a.size)
  for (const file of abandoned) {
    if (own !== undefined) {
      await rm(file.path, { force: true })
      continue
    }
    const path = join(folder, `${etag}.maple-${thisOwner.id}-${randomBytes(6).toString('hex')}${suffix}`)
    try {
      if (file.owner === 'elsewhere') {
        // Its owner may only be asleep, and would go on writing into the file: take a copy of what is there.
        await copyFile(file.path, path)
        await rm(file.path, { force: true })
      } else {
        await rename(file.path, path)
      }
      own = await hold(folder, etag, path)
    } catch (error) {
      // Another process was quicker.
      if (!hasCode(error, 'ENOENT')) throw error
    }
  }
  return own
}

async function create(folder: string, etag: string): Promise<Partial> {
  const path = join(folder, `${etag}.maple-${thisOwner.id}-${randomBytes(6).toString('hex')}${suffix}`)
  await (await open(path, 'wx')).close()
  return hold(folder, etag, path)
}

async function hold(folder: string, etag: string, path: string): Promise<Partial> {
  const touch = (): Promise<void> => {
    const now = new Date()
    return utimes(path, now, now).catch(() => {})
  }
  await touch()
  const heartbeat = setInterval(() => void touch(), heartbeatMs)
  heartbeat.unref()
  return {
    path,
    published: () => clearInterval(heartbeat),
    async release() {
      clearInterval(heartbeat)
      const size = await stat(path).then(
        (file) => file.size,
        () => 0,
      )
      const free = join(folder, `${etag}.maple-free-${randomBytes(6).toString('hex')}${suffix}`)
      await (size > 0 ? rename(path, free) : rm(path, { force: true })).catch(() => {})
    },
  }
}

function ownerState(text: string): Found['owner'] {
  const parts = text.split('-')
  if (parts[0] === 'free') return 'none'
  const [place, pidText, start] = parts
  const pid = Number(pidText)
  if (place !== thisOwner.place || !Number.isSafeInteger(pid) || pid <= 0) return 'elsewhere'
  try {
    process.kill(pid, 0)
  } catch (error) {
    if (hasCode(error, 'ESRCH')) return 'dead'
  }
  const now = processStart(pid)
  return now === undefined || start === '0' || now === start ? 'alive' : 'dead'
}

/** When a process began, in the kernel's own count; `ended` for one that only waits to be reaped; `undefined` where the system does not tell. */
function processStart(pid: number | 'self'): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The second field is the program's name in brackets, which may hold anything.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? 'ended' : fields[19]
  } catch {
    return undefined
  }
}

const thisOwner = ((): { place: string; id: string } => {
  const read = (get: () => string): string => {
    try {
      return get()
    } catch {
      return ''
    }
  }
  const boot = read(() => readFileSync('/proc/sys/kernel/random/boot_id', 'latin1'))
  const namespace = read(() => readlinkSync('/proc/self/ns/pid'))
  const place = createHash('sha256').update(`${hostname()}\n${boot}\n${namespace}`).digest('hex').slice(0, 12)
  return { place, id: `${place}-${process.pid}-${processStart('self') ?? '0'}` }
})()

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await delay(ms, undefined, signal === undefined ? {} : { signal }).catch(() => {})
  signal?.throwIfAborted()
}
