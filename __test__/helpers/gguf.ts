import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { temporaryFolder } from './temporary.js'

/** A value with the type it is written as. */
export type GgufValue =
  | { readonly u32: number }
  | { readonly i32: readonly number[] }
  | { readonly bool: boolean }
  | { readonly string: string }
  | { readonly strings: readonly string[] }
  | { readonly raw: Buffer; readonly type: number }

function u32(value: number): Buffer {
  const b = Buffer.alloc(4)
  b.writeUInt32LE(value)
  return b
}

export function u64(value: number | bigint): Buffer {
  const b = Buffer.alloc(8)
  b.writeBigUInt64LE(BigInt(value))
  return b
}

export function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8')
  return Buffer.concat([u64(bytes.length), bytes])
}

function typed(value: GgufValue): Buffer {
  if ('u32' in value) return Buffer.concat([u32(4), u32(value.u32)])
  if ('bool' in value) return Buffer.concat([u32(7), Buffer.from([value.bool ? 1 : 0])])
  if ('string' in value) return Buffer.concat([u32(8), text(value.string)])
  if ('raw' in value) return Buffer.concat([u32(value.type), value.raw])
  if ('strings' in value) {
    return Buffer.concat([u32(9), u32(8), u64(value.strings.length), ...value.strings.map(text)])
  }
  const numbers = Buffer.alloc(4 * value.i32.length)
  value.i32.forEach((n, i) => numbers.writeInt32LE(n, 4 * i))
  return Buffer.concat([u32(9), u32(5), u64(value.i32.length), numbers])
}

/** The bytes of a GGUF file that has keys and no tensors. */
export function ggufBytes(
  keys: Readonly<Record<string, GgufValue>> | readonly (readonly [string, GgufValue])[],
): Buffer {
  const list = Array.isArray(keys)
    ? (keys as readonly (readonly [string, GgufValue])[])
    : Object.entries(keys as object)
  const body = list.flatMap(([key, value]: readonly [string, GgufValue]) => [text(key), typed(value)])
  return Buffer.concat([Buffer.from('GGUF'), u32(3), u64(0), u64(list.length), ...body])
}

/** Writes a file into a fresh folder and returns its path. */
export async function ggufFile(bytes: Buffer): Promise<string> {
  const path = join(await temporaryFolder(), 'model.gguf')
  await writeFile(path, bytes)
  return path
}

interface TokenizerJson {
  added_tokens: { id: number; content: string; special: boolean }[]
  model: { vocab: Record<string, number>; merges: (string | [string, string])[] }
}

/** The keys that llama.cpp's converter makes of a Qwen `tokenizer.json`, padded to `rows` as it pads. */
export function metadataOf(json: string, template: string, rows: number): Record<string, GgufValue> {
  const { added_tokens: added, model } = JSON.parse(json) as TokenizerJson
  const tokens = Array.from({ length: rows }, (_, id) => `[PAD${id}]`)
  const types = tokens.map(() => 5)
  for (const [token, id] of Object.entries(model.vocab)) {
    tokens[id] = token
    types[id] = 1
  }
  for (const { id, content, special } of added) {
    tokens[id] = content
    types[id] = special ? 3 : 4
  }
  return {
    'general.architecture': { string: 'maple' },
    'tokenizer.ggml.model': { string: 'gpt2' },
    'tokenizer.ggml.pre': { string: 'qwen2' },
    'tokenizer.ggml.tokens': { strings: tokens },
    'tokenizer.ggml.token_type': { i32: types },
    'tokenizer.ggml.merges': { strings: model.merges.map((m) => (typeof m === 'string' ? m : m.join(' '))) },
    'tokenizer.ggml.eos_token_id': { u32: 151645 },
    'tokenizer.ggml.padding_token_id': { u32: 151643 },
    'tokenizer.ggml.add_bos_token': { bool: false },
    'tokenizer.chat_template': { string: template },
  }
}
