// Writes a checkpoint with the sizes of maple-preview and random weights, to measure loading and memory without a download.
//
//   node bench/make-checkpoint.mjs mlx  FOLDER              MLX 2-bit, 5.3 GB
//   node bench/make-checkpoint.mjs bf16 FOLDER --layers 4   Hugging Face bf16, shards with an index, 8 GB for 4 layers
//
// --layers N, --experts N   fewer of them
// --text FOLDER             copy the tokenizer and the template from there
//
// Weights repeat after some megabytes: only their sizes and the ranges of their values matter here.

import { createHash } from 'node:crypto'
import { closeSync, copyFileSync, existsSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs'
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
if (!['mlx', 'bf16'].includes(layout) || folder === undefined || !wholeNumber(layers) || !wholeNumber(experts)) {
  console.error('usage: node bench/make-checkpoint.mjs mlx|bf16 FOLDER [--layers N] [--experts N] [--text FOLDER]')
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
    const pool = tensor[3]
    for (let left = byteLength(tensor); left > 0; left -= pool.length) writeAll(file, pool.subarray(0, left))
  }
  closeSync(file)
}

mkdirSync(folder, { recursive: true })
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
