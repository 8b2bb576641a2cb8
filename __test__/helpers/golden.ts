import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Reference logits and greedy tokens of a fixture. */
export interface Golden {
  /** Largest error of a logit in each numeric mode, relative to the row's largest logit. */
  readonly bounds: { readonly float32: number; readonly int16: number }
  readonly cases: readonly {
    readonly prompt: readonly number[]
    readonly greedy: readonly number[]
    readonly positions: readonly number[]
    /** A row for each position. */
    readonly logits: readonly (readonly number[])[]
  }[]
}

interface Entry {
  readonly shape: readonly [number, number]
  readonly data_offsets: readonly [number, number]
}

/** Reads `golden.json` and the tensors it names. */
export async function readGolden(folder: string): Promise<Golden> {
  const text = JSON.parse(await readFile(join(folder, 'golden.json'), 'utf8')) as {
    bounds: Golden['bounds']
    cases: { prompt: number[]; greedy: number[]; positions: number[]; logits: string }[]
  }
  const file = await readFile(join(folder, 'golden.safetensors'))
  const start = 8 + Number(file.readBigUInt64LE(0))
  const header = JSON.parse(file.toString('utf8', 8, start)) as Record<string, Entry>
  const rows = (name: string): number[][] => {
    const entry = header[name]
    if (entry === undefined) throw new Error(`no tensor ${name}`)
    const [count, width] = entry.shape
    const value = (index: number): number => file.readFloatLE(start + entry.data_offsets[0] + 4 * index)
    return Array.from({ length: count }, (_, row) => Array.from({ length: width }, (_, id) => value(row * width + id)))
  }
  return { bounds: text.bounds, cases: text.cases.map((entry) => ({ ...entry, logits: rows(entry.logits) })) }
}
