import { totalmem } from 'node:os'

/** Memory the program takes beside the weights: code, text, a short conversation. */
const besideWeights = 0.5e9

/** Bytes of memory that this process could take without pushing others out, its control group's limit included. */
export function availableMemory(): number {
  // macOS counts what it could free at once as used.
  return process.platform === 'darwin' ? totalmem() : process.availableMemory()
}

/**
 * A warning where a model about to be fetched will not fit this machine's memory, so that nobody waits for a download in vain.
 *
 * @param configText the model's config.json
 * @param weightBytes bytes of its weight files
 * @param available bytes of memory that could be taken
 */
export function memoryWarning(
  configText: string | undefined,
  weightBytes: number,
  available: number,
): string | undefined {
  const needed = memoryNeeded(configText, weightBytes) + besideWeights
  if (needed <= available) return undefined
  const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(1)} GB`
  return `The model will take about ${gigabytes(needed)} of memory, and ${gigabytes(available)} are available. It will be read from disk over and over, which is slow: close other programs, or use a machine with more memory.`
}

/** Bytes of the weights in memory: files that are packed already stay as they are, 16-bit experts shrink to two bits a weight. */
function memoryNeeded(configText: string | undefined, weightBytes: number): number {
  let config: Record<string, unknown>
  try {
    config = JSON.parse(configText?.replace(/^\uFEFF/, '') ?? '') as Record<string, unknown>
  } catch {
    // A GGUF file, or a config the loader will complain about.
    return weightBytes
  }
  const product = ['hidden_size', 'num_hidden_layers', 'num_experts', 'moe_intermediate_size'].reduce(
    (all, name) => all * Number(config?.[name]),
    1,
  )
  const experts = 3 * product
  return experts > 0 && 2 * experts <= weightBytes ? weightBytes - 2 * experts + experts / 4 : weightBytes
}
