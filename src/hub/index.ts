export { hubCacheDir, packedCacheDir } from './environment.js'
export { availableMemory } from './machine.js'
export { resolveModel } from './resolve.js'
export type { DownloadProgress, Env, ResolveOptions, ResolvedModel } from './types.js'
