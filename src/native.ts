import type * as Addon from '../index.js'
import { type ErrorCode, type MapleError, createError, isErrorCode } from './errors.js'
import { packageVersion, repository } from './version.js'

/** The native addon. */
export type NativeAddon = typeof Addon
export type {
  NativeBenchReport,
  NativeGenerateParams,
  NativeLoadOptions,
  NativeLoadProgress,
  NativeModel,
} from '../index.js'

let loading: Promise<NativeAddon> | undefined

/**
 * The addon for this platform, loaded when it is first needed, so that the parts of the package that do without it work
 * where there is none.
 *
 * @throws MapleError `NATIVE_MISSING` or `NATIVE_MISMATCH`
 */
export function loadAddon(): Promise<NativeAddon> {
  loading ??= openAddon(() => import('../index.js'))
  return loading
}

/** {@link loadAddon} around any way to get at the module. */
export async function openAddon(open: () => Promise<NativeAddon>): Promise<NativeAddon> {
  let addon: NativeAddon
  try {
    addon = await open()
  } catch (cause) {
    const { platform, expected } = describePlatform()
    const reason = systemRefusal(cause)
    const what =
      reason === undefined
        ? `maple-cpu has no native addon for this platform (${platform}). Expected the package ${expected} ` +
          'beside it, which npm leaves out when it is run with --omit=optional, or with a lock file of another platform.'
        : `The native addon is there, but this platform (${platform}) does not load it: ${reason}. Expected the one of the package ${expected}.`
    throw createError('NATIVE_MISSING', `${what}\n${remedy(expected)}`, { cause })
  }
  const found = addon.version()
  if (found !== packageVersion) {
    const { platform, expected } = describePlatform()
    const message = `The native addon is of version ${found}, but the package is ${packageVersion} (${platform}).\n${remedy(expected)}`
    throw createError('NATIVE_MISMATCH', message)
  }
  return addon
}

/**
 * What the system said of an addon that it would not load, where there was one. The generated loader keeps the messages of all
 * that it tried, and nothing else of them; the system's name the file.
 */
function systemRefusal(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (at.message.includes('.node') && !at.message.startsWith('Cannot find module')) return at.message.trim()
  }
  return undefined
}

/** This platform in words, and the name of its package. Slow where the report looks around: for failures only. */
function describePlatform(): { platform: string; expected: string } {
  const { platform, arch, version } = process
  const library = platform === 'linux' ? cLibrary() : undefined
  const abi = platform === 'linux' ? (library?.abi ?? 'gnu') : platform === 'win32' ? 'msvc' : undefined
  const name = [platform, arch, abi].filter((part) => part !== undefined).join('-')
  const words = [`${platform}-${arch}`, library?.name, `Node ${version}`].filter((part) => part !== undefined)
  return { platform: words.join(', '), expected: `maple-cpu-${name}` }
}

/** The C library this process runs on: glibc says its version in Node's report, musl does not. */
function cLibrary(): { abi: 'gnu' | 'musl'; name: string } {
  const report = process.report.getReport() as { header?: { glibcVersionRuntime?: string } }
  const glibc = report.header?.glibcVersionRuntime
  return glibc === undefined ? { abi: 'musl', name: 'musl libc' } : { abi: 'gnu', name: `glibc ${glibc}` }
}

function remedy(expected: string): string {
  return (
    `Either reinstall: npm install maple-cpu@${packageVersion} ${expected}@${packageVersion}\n` +
    'or build it from source, with Rust 1.90 or newer (https://rustup.rs): ' +
    `git clone --branch v${packageVersion} ${repository} && npm ci --prefix maple-cpu && npm install ./maple-cpu`
  )
}

/** Node-API's own complaints about arguments, which it raises before the addon sees them. */
const ARGUMENT_STATUS = /^(?:InvalidArg|\w+Expected)$/

/** The package's error for one that came out of the addon. */
export function fromNative(error: unknown): MapleError {
  const text = error instanceof Error ? error.message : String(error)
  const coded = /^([A-Z_]+): ([^]*)$/.exec(text)
  if (coded !== null && isErrorCode(coded[1])) {
    const [, code, message = ''] = coded as unknown as [string, ErrorCode, string]
    const param = code === 'INVALID_ARGUMENT' ? /^`([^`]+)`/.exec(message)?.[1] : undefined
    return createError(code, message, { cause: error, param })
  }
  if (error instanceof Error && 'code' in error && ARGUMENT_STATUS.test(String(error.code))) {
    return createError('INVALID_ARGUMENT', text, { cause: error })
  }
  return createError('ENGINE_FAILED', `The native addon failed: ${text}`, { cause: error })
}
