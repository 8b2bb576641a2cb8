import type * as Addon from '../index.js'
import { type ErrorCode, type MapleError, createError, isErrorCode } from './errors.js'
import { packageVersion } from './version.js'

/** The native addon. */
export type NativeAddon = typeof Addon
export type { NativeGenerateParams, NativeLoadOptions, NativeModel } from '../index.js'

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
  const platform = `${process.platform}-${process.arch}`
  const rebuild =
    'install Rust (https://rustup.rs) and run `npm run build:native` in its folder, or reinstall the package'
  let addon: NativeAddon
  try {
    addon = await open()
  } catch (cause) {
    const message = `maple-cpu has no native addon for this platform (${platform}, Node ${process.version}): ${rebuild}.`
    throw createError('NATIVE_MISSING', message, { cause })
  }
  const found = addon.version()
  if (found !== packageVersion) {
    const message = `The native addon is of version ${found}, but the package is ${packageVersion}: ${rebuild}.`
    throw createError('NATIVE_MISMATCH', message)
  }
  return addon
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
