// Writes a checkpoint with the sizes of maple-preview and random weights, to measure loading and memory without a download.
//
//   node bench/make-checkpoint.mjs mlx  FOLDER              MLX 2-bit, 5.3 GB
//   node bench/make-checkpoint.mjs bf16 FOLDER --layers 4   Hugging Face bf16, shards with an index, 8 GB for 4 layers
//   node bench/make-checkpoint.mjs gguf FOLDER              GGUF, TQ2_0 with embedding and head in Q4_K, 5.4 GB
//
// --layers N, --experts N   fewer of them
// --text FOLDER             take the tokenizer and the template from there
//
// Weights repeat after some megabytes: only their sizes and the ranges of their values matter here.

import { createHash } from 'node:crypto'
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    layers: { type: 'string', default: '24' },
    experts: { type: 'string', default: '256' },
    text: { type: 'string' },
  },
})
const [layout, folder] = positionals
const layers = Number(values.layers)
const experts = Number(values.experts)
const wholeNumber = (n) => Number.isInteger(n) && n > 0
if (
  !['mlx', 'bf16', 'gguf'].includes(layout) ||
  folder === undefined ||
  !wholeNumber(layers) ||
  !wholeNumber(experts)
) {
  console.error('usage: node bench/make-checkpoint.mjs mlx|bf16|gguf FOLDER [--layers N] [--experts N] [--text FOLDER]')
  process.exit(2)
}

const HIDDEN = 2048
const EXPERT = 512
const QUERY = 16 * 128
const KEY = 4 * 128
const VOCAB = 151936
const SHARD_BYTES = 5e9

const config = {
  architectures: ['MapleForCausalLM'],
  model_type: 'maple',
  hidden_size: HIDDEN,
  num_hidden_layers: layers,
  num_attention_heads: 16,
  num_key_value_heads: 4,
  head_dim: 128,
  num_experts: experts,
  num_experts_per_tok: Math.min(8, experts),
  moe_intermediate_size: EXPERT,
  vocab_size: VOCAB,
  layer_types: Array.from({ length: layers }, (_, l) => (l % 4 === 3 ? 'full_attention' : 'sliding_attention')),
  sliding_window: 512,
  rope_theta: 10000,
  partial_rotary_factor: 0.5,
  rms_norm_eps: 1e-6,
  max_position_embeddings: 131072,
  tie_word_embeddings: false,
  eos_token_id: 151645,
  bos_token_id: 151643,
}

/** The high half of a float, which is its bfloat16. */
function bf16(value) {
  return new Uint32Array(new Float32Array([value]).buffer)[0] >>> 16
}

/** Numbers from 0 to 2^32 that are the same at every run (SHA-256 of a counter, stretched by an xorshift). */
function randomWords(label, count) {
  const words = new Uint32Array(count)
  let state = createHash('sha256').update(label).digest().readUInt32LE(0) | 1
  for (let i = 0; i < count; i++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    words[i] = state
  }
  return words
}

const POOL = 1 << 20 // numbers in each pool; tensors take turns through it
const bytes = (array) => Buffer.from(array.buffer)

/** Two-bit codes 0, 1 and 2: where a random code is 3, it becomes 1. */
const ternaryCodes = bytes(randomWords('codes', POOL).map((word) => word & ~((word & (word >>> 1) & 0x55555555) << 1)))
const anyCodes = bytes(randomWords('nibbles', POOL))
const around = (value) => randomWords(`around ${value}`, POOL).map((word) => bf16(value * (0.75 + word / 2 ** 33)))
const halves = (words) => bytes(Uint16Array.from(words))
const plain = (size) =>
  halves(randomWords(`plain ${size}`, POOL).map((word) => (bf16(size) & 0x7f80) | (word & 0x807f)))
const alphas = { [HIDDEN]: halves(around(Math.sqrt(2 / HIDDEN))), [EXPERT]: halves(around(Math.sqrt(2 / EXPERT))) }
const headScale = 1 / Math.sqrt(HIDDEN) / 4.6
const scales = halves(around(headScale))
const biases = halves(new Uint16Array(POOL).fill(bf16(-7.5 * headScale)))
const dense = plain(1 / Math.sqrt(HIDDEN))
const ones = halves(new Uint16Array(POOL).fill(bf16(1)))

/** Rows of -s, 0 and s in bfloat16, 2^19 numbers, for the plain layout. */
function ternaryRows(cols) {
  const random = randomWords(`rows ${cols}`, 1 << 19)
  const scale = around(Math.sqrt(2 / cols))
  return halves(
    random.map((word, at) => {
      const code = word >>> 30
      return code < 2 ? 0 : scale[Math.floor(at / cols)] | (code === 2 ? 0x8000 : 0)
    }),
  )
}

/** All tensors in order: name, dtype, shape, and the pool their bytes come from. */
function* tensors() {
  const mlx = layout === 'mlx'
  const rows = mlx ? null : { [HIDDEN]: ternaryRows(HIDDEN), [EXPERT]: ternaryRows(EXPERT) }
  function* ternary(name, shape) {
    const cols = shape.at(-1)
    const outer = shape.slice(0, -1)
    if (!mlx) return yield [`${name}.weight`, 'BF16', shape, rows[cols]]
    yield [`${name}.weight`, 'U32', [...outer, cols / 16], ternaryCodes]
    yield [`${name}.row_alpha`, 'BF16', outer, alphas[cols]]
  }
  function* vocabulary(name) {
    if (!mlx) return yield [`${name}.weight`, 'BF16', [VOCAB, HIDDEN], dense]
    yield [`${name}.weight`, 'U32', [VOCAB, HIDDEN / 8], anyCodes]
    yield [`${name}.scales`, 'BF16', [VOCAB, HIDDEN / 64], scales]
    yield [`${name}.biases`, 'BF16', [VOCAB, HIDDEN / 64], biases]
  }
  yield* vocabulary('model.word_embeddings')
  for (let l = 0; l < layers; l++) {
    const prefix = `model.layers.${l}`
    yield [`${prefix}.input_layernorm.weight`, 'BF16', [HIDDEN], ones]
    yield* ternary(`${prefix}.self_attn.q_proj`, [QUERY, HIDDEN])
    yield* ternary(`${prefix}.self_attn.k_proj`, [KEY, HIDDEN])
    yield* ternary(`${prefix}.self_attn.v_proj`, [KEY, HIDDEN])
    yield* ternary(`${prefix}.self_attn.o_proj`, [HIDDEN, QUERY])
    yield [`${prefix}.self_attn.q_norm.weight`, 'BF16', [128], ones]
    yield [`${prefix}.self_attn.k_norm.weight`, 'BF16', [128], ones]
    yield [`${prefix}.post_attention_layernorm.weight`, 'BF16', [HIDDEN], ones]
    yield [`${prefix}.mlp.gate.weight`, 'BF16', [experts, HIDDEN], dense]
    const projections = [
      ['gate_proj', [EXPERT, HIDDEN]],
      ['up_proj', [EXPERT, HIDDEN]],
      ['down_proj', [HIDDEN, EXPERT]],
    ]
    for (const [projection, shape] of projections) {
      if (mlx) yield* ternary(`${prefix}.mlp.switch_mlp.${projection}`, [experts, ...shape])
      else for (let e = 0; e < experts; e++) yield* ternary(`${prefix}.mlp.experts.${e}.${projection}`, shape)
    }
  }
  yield ['model.norm.weight', 'BF16', [HIDDEN], ones]
  yield* vocabulary('lm_head')
}

const byteLength = ([, dtype, shape]) => shape.reduce((product, size) => product * size, dtype === 'U32' ? 4 : 2)

function writeAll(file, data) {
  for (let at = 0; at < data.length;) at += writeSync(file, data, at)
}

/** Writes so many bytes, the pool's again and again. */
function writeRepeated(file, pool, length) {
  for (let left = length; left > 0; left -= pool.length) writeAll(file, pool.subarray(0, left))
}

/** Writes one safetensors file. */
function writeShard(path, shard) {
  const header = { __metadata__: { format: layout === 'mlx' ? 'mlx' : 'pt' } }
  let offset = 0
  for (const tensor of shard) {
    const [name, dtype, shape] = tensor
    header[name] = { dtype, shape, data_offsets: [offset, (offset += byteLength(tensor))] }
  }
  const json = JSON.stringify(header)
  const padded = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(padded.length))
  const file = openSync(path, 'w')
  writeAll(file, Buffer.concat([length, padded]))
  for (const tensor of shard) {
    writeRepeated(file, tensor[3], byteLength(tensor))
  }
  closeSync(file)
}

/** The high bits of a float as IEEE half precision; for sizes from 2^-14 to 2^15. */
function f16(value) {
  const bits = new Uint32Array(new Float32Array([value]).buffer)[0]
  return (((bits >>> 23) - 112) << 10) | ((bits >>> 13) & 0x3ff)
}

/** Rows of TQ2_0 blocks: 256 two-bit codes and a half-precision scale, the same in all blocks of a row. */
function tq2Rows(cols) {
  const blocks = cols / 256
  const rows = Math.floor((1 << 14) / blocks)
  const random = randomWords(`tq2 ${cols}`, rows)
  const pool = Buffer.alloc(rows * blocks * 66)
  for (let row = 0; row < rows; row++) {
    const scale = f16(Math.sqrt(2 / cols) * (0.75 + random[row] / 2 ** 33))
    for (let at = row * blocks * 66; at < (row + 1) * blocks * 66; at += 66) {
      ternaryCodes.copy(pool, at, (at / 66) * 64, (at / 66) * 64 + 64)
      pool.writeUInt16LE(scale, at + 64)
    }
  }
  return pool
}

/** Q4_K blocks: two half-precision scales, 16 of six bits below them, 256 codes of four bits. */
function q4kBlocks() {
  const pool = Buffer.from(anyCodes.subarray(0, 144 << 13))
  const scale = 1 / Math.sqrt(HIDDEN) / 31 / 4.6
  for (let at = 0; at < pool.length; at += 144) {
    pool.writeUInt16LE(f16(scale), at)
    pool.writeUInt16LE(f16(7.5 * scale), at + 2)
  }
  return pool
}

/** All tensors of the GGUF form: name, type, sizes with the fastest first, bytes, and the pool they come from. */
function* ggufTensors() {
  const [F32, Q4_K, TQ2_0] = [0, 12, 35]
  const floats = (value) => bytes(new Float32Array(POOL).fill(value))
  const [norms, codes] = [floats(1), q4kBlocks()]
  // 32-bit numbers that came from bf16, as those of converted checkpoints did.
  const router = bytes(randomWords('router', POOL).map((word) => bf16((word / 2 ** 31 - 1) / Math.sqrt(HIDDEN)) << 16))
  const rows = { [HIDDEN]: tq2Rows(HIDDEN), [EXPERT]: tq2Rows(EXPERT) }
  const count = (dims) => dims.reduce((product, size) => product * size)
  const plain = (name, dims, pool) => [`${name}.weight`, F32, dims, 4 * count(dims), pool]
  const ternary = (name, dims) => [`${name}.weight`, TQ2_0, dims, (count(dims) / 256) * 66, rows[dims[0]]]
  const vocabulary = (name) => [`${name}.weight`, Q4_K, [HIDDEN, VOCAB], ((HIDDEN * VOCAB) / 256) * 144, codes]
  yield vocabulary('token_embd')
  for (let l = 0; l < layers; l++) {
    const blk = `blk.${l}`
    yield plain(`${blk}.attn_norm`, [HIDDEN], norms)
    yield ternary(`${blk}.attn_q`, [HIDDEN, QUERY])
    yield ternary(`${blk}.attn_k`, [HIDDEN, KEY])
    yield ternary(`${blk}.attn_v`, [HIDDEN, KEY])
    yield ternary(`${blk}.attn_output`, [QUERY, HIDDEN])
    yield plain(`${blk}.attn_q_norm`, [128], norms)
    yield plain(`${blk}.attn_k_norm`, [128], norms)
    yield plain(`${blk}.ffn_norm`, [HIDDEN], norms)
    yield plain(`${blk}.ffn_gate_inp`, [HIDDEN, experts], router)
    yield ternary(`${blk}.ffn_gate_exps`, [HIDDEN, EXPERT, experts])
    yield ternary(`${blk}.ffn_up_exps`, [HIDDEN, EXPERT, experts])
    yield ternary(`${blk}.ffn_down_exps`, [EXPERT, HIDDEN, experts])
  }
  yield plain('output_norm', [HIDDEN], norms)
  yield vocabulary('output')
}

const little = (width, value) => {
  const buffer = Buffer.alloc(8)
  buffer.writeBigUInt64LE(BigInt(value))
  return buffer.subarray(0, width)
}
const text = (value) => {
  const data = Buffer.from(value)
  return Buffer.concat([little(8, data.length), data])
}

/** The keys of the GGUF form, as its writers name them; with those of a tokenizer where there is one. */
function ggufKeys() {
  const u32 = (value) => Buffer.concat([little(4, 4), little(4, value)])
  const f32 = (value) => Buffer.concat([little(4, 6), bytes(new Float32Array([value]))])
  const string = (value) => Buffer.concat([little(4, 8), text(value)])
  const list = (type, items) => Buffer.concat([little(4, 9), little(4, type), little(8, items.length), ...items])
  const keys = [
    ['general.architecture', string('maple')],
    ['maple.block_count', u32(layers)],
    ['maple.context_length', u32(config.max_position_embeddings)],
    ['maple.embedding_length', u32(HIDDEN)],
    ['maple.attention.head_count', u32(config.num_attention_heads)],
    ['maple.attention.head_count_kv', u32(config.num_key_value_heads)],
    ['maple.attention.key_length', u32(config.head_dim)],
    ['maple.attention.value_length', u32(config.head_dim)],
    ['maple.attention.layer_norm_rms_epsilon', f32(config.rms_norm_eps)],
    ['maple.attention.sliding_window', u32(config.sliding_window)],
    [
      'maple.attention.sliding_window_pattern',
      list(
        7,
        config.layer_types.map((kind) => little(1, kind === 'sliding_attention' ? 1 : 0)),
      ),
    ],
    ['maple.rope.freq_base', f32(config.rope_theta)],
    ['maple.rope.dimension_count', u32(config.head_dim * config.partial_rotary_factor)],
    ['maple.expert_count', u32(experts)],
    ['maple.expert_used_count', u32(config.num_experts_per_tok)],
    ['maple.expert_feed_forward_length', u32(EXPERT)],
    ['maple.vocab_size', u32(VOCAB)],
  ]
  if (values.text === undefined) return keys
  const { added_tokens, model } = JSON.parse(readFileSync(join(values.text, 'tokenizer.json'), 'utf8'))
  const tokens = Array.from({ length: VOCAB }, (_, id) => `[PAD${id}]`)
  const types = tokens.map(() => 5)
  for (const [token, id] of Object.entries(model.vocab)) [tokens[id], types[id]] = [token, 1]
  for (const { id, content, special } of added_tokens) [tokens[id], types[id]] = [content, special ? 3 : 4]
  const merges = model.merges.map((merge) => (typeof merge === 'string' ? merge : merge.join(' ')))
  keys.push(
    ['tokenizer.ggml.model', string('gpt2')],
    ['tokenizer.ggml.pre', string('qwen2')],
    ['tokenizer.ggml.tokens', list(8, tokens.map(text))],
    [
      'tokenizer.ggml.token_type',
      list(
        5,
        types.map((type) => little(4, type)),
      ),
    ],
    ['tokenizer.ggml.merges', list(8, merges.map(text))],
    ['tokenizer.ggml.eos_token_id', u32(config.eos_token_id)],
    ['tokenizer.ggml.bos_token_id', u32(config.bos_token_id)],
  )
  const template = join(values.text, 'chat_template.jinja')
  if (existsSync(template)) keys.push(['tokenizer.chat_template', string(readFileSync(template, 'utf8'))])
  return keys
}

/** Writes one GGUF file. */
function writeGguf(path) {
  const [keys, infos, all] = [ggufKeys(), [], [...ggufTensors()]]
  const padding = (length) => (32 - (length % 32)) % 32
  let offset = 0
  for (const [name, type, dims, length] of all) {
    infos.push(text(name), little(4, dims.length), ...dims.map((size) => little(8, size)))
    infos.push(little(4, type), little(8, offset))
    offset += length + padding(length)
  }
  const start = [Buffer.from('GGUF'), little(4, 3), little(8, all.length), little(8, keys.length)]
  const header = Buffer.concat([...start, ...keys.flatMap(([key, value]) => [text(key), value]), ...infos])
  const file = openSync(path, 'w')
  writeAll(file, Buffer.concat([header, Buffer.alloc(padding(header.length))]))
  for (const [, , , length, pool] of all) {
    writeRepeated(file, pool, length)
    writeAll(file, Buffer.alloc(padding(length)))
  }
  closeSync(file)
}

mkdirSync(folder, { recursive: true })
if (layout === 'gguf') {
  writeGguf(join(folder, 'model.gguf'))
  process.exit(0)
}
const shards = [[]]
let size = 0
for (const tensor of tensors()) {
  size += byteLength(tensor)
  if (layout === 'bf16' && size > SHARD_BYTES) {
    shards.push([])
    size = byteLength(tensor)
  }
  shards.at(-1).push(tensor)
}
if (layout === 'mlx') {
  const quantization = {
    group_size: 128,
    bits: 2,
    mode: 'affine',
    'model.word_embeddings': { group_size: 64, bits: 4 },
    lm_head: { group_size: 64, bits: 4 },
  }
  Object.assign(config, { quantization })
  writeShard(join(folder, 'model.safetensors'), shards[0])
} else {
  const weight_map = {}
  shards.forEach((shard, i) => {
    const number = (n) => String(n).padStart(5, '0')
    const name = `model-${number(i + 1)}-of-${number(shards.length)}.safetensors`
    for (const [tensor] of shard) weight_map[tensor] = name
    writeShard(join(folder, name), shard)
  })
  writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify({ weight_map }))
}
writeFileSync(join(folder, 'config.json'), JSON.stringify(config, null, 2))
for (const name of ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja']) {
  const from = values.text === undefined ? undefined : join(values.text, name)
  if (from !== undefined && existsSync(from)) copyFileSync(from, join(folder, name))
}
