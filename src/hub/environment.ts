import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { HubError, InvalidArgumentError, StorageError } from '../errors.js'
import type { Env } from './types.js'

/** The settings of the official clients, read from one environment. */
export interface HubEnvironment {
  /** Folder of the `models--org--name` folders, absolute. */
  readonly cacheDir: string
  /** The hub's address, without a trailing slash. */
  readonly endpoint: URL
  readonly offline: boolean
  /** Whether links may be tried in the cache. */
  readonly symlinks: boolean
  /** Longest wait for a byte of a file, in milliseconds. */
  readonly downloadTimeoutMs: number
  /** Longest wait for an answer about a file, in milliseconds. */
  readonly etagTimeoutMs: number
  /** The access token, read when first needed. */
  token(): Promise<string | undefined>
}

/** Reads the official variables in the official order; an empty one counts as unset. */
export function readEnvironment(env: Env): HubEnvironment {
  const get = (name: string): string | undefined => env[name]?.trim() || undefined
  const path = (name: string): string | undefined => {
    const value = get(name)
    return value === undefined ? undefined : expandPath(value, env)
  }
  const home = (): string => path('HF_HOME') ?? join(cacheHome(env), 'huggingface')
  return {
    cacheDir: path('HF_HUB_CACHE') ?? path('HUGGINGFACE_HUB_CACHE') ?? join(home(), 'hub'),
    endpoint: parseEndpoint(get('HF_ENDPOINT') ?? 'https://huggingface.co'),
    offline: isTrue(get('HF_HUB_OFFLINE') ?? get('TRANSFORMERS_OFFLINE')),
    symlinks: !isTrue(get('HF_HUB_DISABLE_SYMLINKS')),
    downloadTimeoutMs: seconds('HF_HUB_DOWNLOAD_TIMEOUT', get('HF_HUB_DOWNLOAD_TIMEOUT')),
    etagTimeoutMs: seconds('HF_HUB_ETAG_TIMEOUT', get('HF_HUB_ETAG_TIMEOUT')),
    async token() {
      if (isTrue(get('HF_HUB_DISABLE_IMPLICIT_TOKEN'))) return undefined
      const value = cleanToken(get('HF_TOKEN') ?? get('HUGGING_FACE_HUB_TOKEN'))
      return value ?? (await readTokenFile(path('HF_TOKEN_PATH') ?? join(home(), 'token')))
    },
  }
}

/** The cache folder that the official tools share. */
export function hubCacheDir(env: Env): string {
  return readEnvironment(env).cacheDir
}

/** Folder for this program's own packed files: `MAPLE_CACHE`, else `maple-cpu` in the user's cache folder. */
export function packedCacheDir(env: Env): string {
  const value = env['MAPLE_CACHE']?.trim()
  return value ? expandPath(value, env) : join(cacheHome(env), 'maple-cpu')
}

/** Expands a leading `~` and `$NAME` or `${NAME}` (unknown names stay as they are), and makes the path absolute. */
export function expandPath(path: string, env: Env): string {
  const expanded = path.replace(
    /\$(?:(\w+)|\{(\w+)\})/g,
    (whole, plain?: string, braced?: string) => env[plain ?? braced ?? ''] ?? whole,
  )
  return resolve(/^~(?=$|[\\/])/.test(expanded) ? userHome(env) + expanded.slice(1) : expanded)
}

function cacheHome(env: Env): string {
  const xdg = env['XDG_CACHE_HOME']?.trim()
  return xdg ? expandPath(xdg, env) : join(userHome(env), '.cache')
}

function userHome(env: Env): string {
  const named = env['HOME']?.trim() || (process.platform === 'win32' ? env['USERPROFILE']?.trim() : undefined)
  if (named) return resolve(named)
  try {
    const home = homedir()
    if (home) return home
  } catch {
    // No entry for this user: told below.
  }
  throw new StorageError(
    'CACHE_NOT_WRITABLE',
    'This user has no home folder to keep a cache in. Set HF_HOME and MAPLE_CACHE to folders it may write to.',
  )
}

function parseEndpoint(text: string): URL {
  const bad = (why: string): InvalidArgumentError =>
    new InvalidArgumentError(
      'INVALID_ARGUMENT',
      `HF_ENDPOINT ${why}; it takes the hub's address, such as https://huggingface.co.`,
      { param: 'HF_ENDPOINT' },
    )
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw bad('is not an address')
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw bad('must begin with https:// or http://')
  if (url.username || url.password)
    throw bad('must not hold a user name or password (HF_TOKEN is the place for a secret)')
  if (url.search || url.hash) throw bad('must not hold a query or a fragment')
  url.pathname = url.pathname.replace(/\/+$/, '')
  return url
}

function seconds(name: string, text: string | undefined): number {
  const value = text === undefined ? 10 : Number(text)
  if (!Number.isFinite(value) || value < 0 || value > 86_400) {
    throw new InvalidArgumentError(
      'INVALID_ARGUMENT',
      `${name} must be a number of seconds up to 86400, and is "${text}".`,
      { param: name },
    )
  }
  return (value || 10) * 1000
}

function isTrue(value: string | undefined): boolean {
  return value !== undefined && ['1', 'ON', 'YES', 'TRUE'].includes(value.toUpperCase())
}

function cleanToken(text: string | undefined): string | undefined {
  const token = text?.replace(/[\r\n\uFEFF]/g, '').trim()
  if (!token) return undefined
  // It becomes a header: what cannot stand in one is refused here, without quoting it.
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new HubError(
      'HUB_AUTH',
      'The access token holds spaces or characters that no token has. Check HF_TOKEN, or the token file.',
    )
  }
  return token
}

async function readTokenFile(path: string): Promise<string | undefined> {
  try {
    return cleanToken(await readFile(path, 'utf8'))
  } catch (error) {
    if (error instanceof HubError) throw error
    // A missing or unreadable token file means no token; a repo that needs one will say so.
    return undefined
  }
}
