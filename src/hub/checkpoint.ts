import { ModelError } from '../errors.js'
import { isSafeFileName, printable } from './repo-id.js'

/** Small files a model may come with. Only config.json must be there. */
export const textFiles = [
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'chat_template.jinja',
] as const

export const indexFile = 'model.safetensors.index.json'
export const singleFile = 'model.safetensors'

/** Which files of a repo make up the model. */
export interface Selection {
  /** What the model's path is: the snapshot's folder, or one GGUF file in it. */
  readonly entry: string | undefined
  readonly texts: readonly string[]
  /** Weight files known by name already; with an index, it alone can tell. */
  readonly weights: readonly string[]
  readonly index: string | undefined
}

/**
 * Picks the model's files among those of a repo.
 *
 * @param gguf the GGUF file asked for, if one was
 * @throws ModelError `MODEL_NOT_FOUND` where a needed file is not there
 */
export function selectFiles(id: string, files: ReadonlySet<string>, gguf: string | undefined): Selection {
  if (gguf !== undefined) return selectGguf(id, files, gguf)
  const index = files.has(indexFile) ? indexFile : undefined
  if (index === undefined && !files.has(singleFile)) {
    const heads = ggufHeads(files)
    const otherWeights = [...files].some((name) => name.endsWith('.safetensors'))
    if (heads.length === 1 && !otherWeights) return selectGguf(id, files, heads[0] as string)
    const hint =
      heads.length > 0
        ? `It holds GGUF files; name one: ${heads
            .slice(0, 8)
            .map((name) => `${id}:${printable(name)}`)
            .join(', ')}${heads.length > 8 ? ', …' : ''}.`
        : 'Is it a model in safetensors or GGUF form?'
    throw new ModelError('MODEL_NOT_FOUND', `${id} has neither ${singleFile} nor ${indexFile}. ${hint}`)
  }
  if (!files.has('config.json'))
    throw new ModelError('MODEL_NOT_FOUND', `${id} has no config.json, so it does not say what model it is.`)
  return {
    entry: undefined,
    texts: textFiles.filter((name) => files.has(name)),
    weights: index === undefined ? [singleFile] : [],
    index,
  }
}

/** The shards an index names, in order. */
export function shardNames(id: string, indexText: string): string[] {
  const bad = (why: string): ModelError =>
    new ModelError('INVALID_CHECKPOINT', `${indexFile} of ${id} cannot be used: ${why}.`)
  let index: unknown
  try {
    index = JSON.parse(indexText.replace(/^\uFEFF/, ''))
  } catch {
    throw bad('it is not JSON')
  }
  const map = (index as { weight_map?: unknown } | null)?.weight_map
  if (typeof map !== 'object' || map === null || Array.isArray(map)) throw bad('it has no object "weight_map"')
  const names = new Set<string>()
  for (const [tensor, name] of Object.entries(map)) {
    if (typeof name !== 'string') throw bad(`"${printable(tensor)}" does not name its file`)
    if (!isSafeFileName(name) || name.includes('/')) throw bad(`"${printable(name)}" is not a plain file name`)
    if (!name.endsWith('.safetensors')) throw bad(`"${printable(name)}" is not a .safetensors file`)
    names.add(name)
  }
  if (names.size === 0) throw bad('it names no files')
  if (names.size > 10_000) throw bad(`it names ${names.size} files`)
  return [...names].sort()
}

/** The GGUF files among these, of split ones the first part. */
export function ggufHeads(files: ReadonlySet<string>): string[] {
  return [...files].filter((name) => /\.gguf$/i.test(name) && (splitParts(name)?.[0] ?? name) === name)
}

/** All parts of a split GGUF file, in order, or `undefined` for one that is not split. */
export function splitParts(name: string): string[] | undefined {
  const match = /^(.*)-(\d{5})-of-(\d{5})(\.gguf)$/i.exec(name)
  const count = Number(match?.[3])
  if (match === null || count === 0) return undefined
  return Array.from(
    { length: count },
    (_, part) => `${match[1]}-${String(part + 1).padStart(5, '0')}-of-${match[3]}${match[4]}`,
  )
}

function selectGguf(id: string, files: ReadonlySet<string>, name: string): Selection {
  const parts = splitParts(name) ?? [name]
  const missing = parts.filter((part) => !files.has(part))
  if (missing.length > 0) {
    const others = [...files].filter((other) => /\.gguf$/i.test(other))
    throw new ModelError(
      'MODEL_NOT_FOUND',
      `${id} has no file ${missing.slice(0, 4).map(printable).join(', ')}. ${others.length === 0 ? 'It has no GGUF files.' : `Its GGUF files: ${others.slice(0, 8).map(printable).join(', ')}.`}`,
    )
  }
  return { entry: parts[0], texts: [], weights: parts, index: undefined }
}
