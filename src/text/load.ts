import { stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { createError, type ErrorCode } from '../errors.js'
import { readRegularFile } from '../regular-file.js'
import { type CompiledTokenizer, compileTokenizer } from './compiled.js'
import { GgufError, type GgufText, readGgufText } from './gguf.js'
import { keep, placeOf, readKept } from './kept.js'
import { TextModelOf } from './model.js'
import { ChatTemplate } from './template.js'
import { checkTokenizerFile } from './tokenizer-file.js'
import { Tokenizer } from './tokenizer.js'
import type { TextModel } from './types.js'

type Fields = Readonly<Record<string, unknown>>

/** Names of the template that Transformers picks among several, without and with tools. */
const DEFAULT_TEMPLATE = 'default'
const TOOL_TEMPLATE = 'tool_use'

/** End tokens that every Maple checkpoint has, by spelling. */
const END_SPELLINGS = ['<|im_end|>', '<|endoftext|>']

/** A file's text without its byte order mark; undefined when there is no such file. */
async function readText(folder: string, name: string): Promise<string | undefined> {
  try {
    const text = (await readRegularFile(join(folder, name))).toString('utf8')
    return text.startsWith('\uFEFF') ? text.slice(1) : text
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw createError('READ_FAILED', `${name} cannot be read: ${message(error)}`, { cause: error })
  }
}

function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Runs one step on a file's content, giving its defects the code and the file's name. */
function inFile<T>(code: ErrorCode, name: string, step: () => T): T {
  try {
    return step()
  } catch (error) {
    throw createError(code, `${name}: ${message(error)}`, { cause: error })
  }
}

function parse(code: ErrorCode, name: string, text: string | undefined): Fields | undefined {
  if (text === undefined) return undefined
  return inFile(code, name, () => {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('must hold a JSON object')
    return value as Fields
  })
}

/** The token ids under `eos_token_id`: absent, one, or several. */
function endIds(file: Fields | undefined): number[] {
  const value = file?.eos_token_id ?? []
  return (Array.isArray(value) ? (value as unknown[]) : [value]).map((id) => {
    if (typeof id === 'number' && Number.isInteger(id) && id >= 0) return id
    throw new Error(`eos_token_id must be token ids, found ${JSON.stringify(value)}`)
  })
}

/** A special token's spelling: a string, or an object that holds it. */
function spelling(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  const content = typeof value === 'object' && value !== null && 'content' in value ? value.content : undefined
  return typeof content === 'string' ? content : undefined
}

/** Templates by name, from `chat_template`: one source, or a list of named ones. */
function templateSources(value: unknown): Map<string, string> {
  if (value === undefined || value === null) return new Map()
  if (typeof value === 'string') return new Map([[DEFAULT_TEMPLATE, value]])
  if (!Array.isArray(value)) throw new Error('chat_template must be a string or a list of named templates')
  const sources = value.map((entry: unknown, i): [string, string] => {
    const { name, template } = (entry ?? {}) as Fields
    if (typeof name !== 'string' || typeof template !== 'string') {
      throw new Error(`chat_template[${i}] must have a name and a template`)
    }
    return [name, template]
  })
  const [only, ...others] = sources
  if (only !== undefined && others.length === 0) return new Map([[DEFAULT_TEMPLATE, only[1]]])
  if (sources.length > 0 && !sources.some(([name]) => name === DEFAULT_TEMPLATE)) {
    throw new Error(`chat_template has no "${DEFAULT_TEMPLATE}" among ${sources.map(([name]) => name).join(', ')}`)
  }
  return new Map(sources)
}

/** Spellings that templates may use by name, such as `bos_token`. */
function namedTokens(config: Fields | undefined): Map<string, string> {
  const names = ['bos_token', 'eos_token', 'pad_token', 'unk_token']
  const found = names.map((name): [string, string | undefined] => [name, spelling(config?.[name])])
  return new Map(found.filter((entry): entry is [string, string] => entry[1] !== undefined))
}

/** What a checkpoint says of text, wherever it keeps it. */
interface Sources {
  readonly tokenizer: CompiledTokenizer | undefined
  /** Where it was found. */
  readonly tokenizerFile: string
  readonly tokenizerConfig: Fields | undefined
  readonly configFile: string
  /** A template file of its own. */
  readonly jinja: string | undefined
  readonly model: Fields | undefined
  readonly endTokens: readonly number[]
}

/** A file's tokenizer, parsed, and what else the file says of text. */
interface Parsed<T> {
  readonly tokenizer: Fields | undefined
  readonly rest: T
}

/** Compiles the tokenizer that `source` holds, or takes the copy kept in `folder`; keeps one there for the next time. */
async function compiled<T>(
  source: string,
  folder: string | undefined,
  parse: () => Promise<Parsed<T>>,
): Promise<{ tokenizer: CompiledTokenizer | undefined; rest: T }> {
  const place = folder === undefined ? undefined : await placeOf(folder, source)
  const kept = place && (await readKept(place))
  if (kept !== undefined) return { tokenizer: kept.tokenizer, rest: kept.rest as T }
  const parsed = await parse()
  if (parsed.tokenizer === undefined) return { tokenizer: undefined, rest: parsed.rest }
  const name = basename(source)
  // A large vocabulary takes tenths of a second: give way to other work between the steps.
  await setImmediate()
  const file = inFile('INVALID_TOKENIZER', name, () => checkTokenizerFile(parsed.tokenizer))
  await setImmediate()
  const result = { tokenizer: inFile('INVALID_TOKENIZER', name, () => compileTokenizer(file)), rest: parsed.rest }
  if (folder !== undefined && place !== undefined) await keep(folder, source, place, result)
  return result
}

async function readFolder(folder: string, cache: string | undefined): Promise<Sources> {
  const [config, jinja, modelText, generationText] = await Promise.all(
    ['tokenizer_config.json', 'chat_template.jinja', 'config.json', 'generation_config.json'].map((name) =>
      readText(folder, name),
    ),
  )
  const model = parse('INVALID_CHECKPOINT', 'config.json', modelText)
  const generation = parse('INVALID_CHECKPOINT', 'generation_config.json', generationText)
  const tokenizerFile = 'tokenizer.json'
  const { tokenizer } = await compiled(join(folder, tokenizerFile), cache, async () => ({
    tokenizer: parse('INVALID_TOKENIZER', tokenizerFile, await readText(folder, tokenizerFile)),
    rest: undefined,
  }))
  return {
    tokenizer,
    tokenizerFile,
    tokenizerConfig: parse('INVALID_TOKENIZER', 'tokenizer_config.json', config),
    configFile: 'tokenizer_config.json',
    jinja,
    model,
    endTokens: [
      ...inFile('INVALID_CHECKPOINT', 'config.json', () => endIds(model)),
      ...inFile('INVALID_CHECKPOINT', 'generation_config.json', () => endIds(generation)),
    ],
  }
}

async function ggufText(path: string): Promise<GgufText> {
  try {
    return await readGgufText(path)
  } catch (error) {
    const file = basename(path)
    if (!(error instanceof GgufError))
      throw createError('READ_FAILED', `${file} cannot be read: ${message(error)}`, { cause: error })
    throw createError('INVALID_TOKENIZER', `${file}: ${error.message}`, { cause: error })
  }
}

/** The files, by name, that say in a folder what a GGUF file says of text in its metadata. */
export async function ggufTextFiles(path: string): Promise<Record<string, string>> {
  const { tokenizerJson, tokenizerConfig, endTokens } = await ggufText(path)
  const files: [string, unknown][] = [
    ['tokenizer.json', tokenizerJson],
    ['tokenizer_config.json', tokenizerConfig],
    ['generation_config.json', endTokens.length > 0 ? { eos_token_id: endTokens } : undefined],
  ]
  return Object.fromEntries(
    files.filter(([, content]) => content !== undefined).map(([name, content]) => [name, JSON.stringify(content)]),
  )
}

async function readGguf(path: string, cache: string | undefined): Promise<Sources> {
  const file = basename(path)
  const { tokenizer, rest } = await compiled(path, cache, async () => {
    const { tokenizerJson, ...rest } = await ggufText(path)
    return { tokenizer: tokenizerJson, rest }
  })
  return { tokenizer, tokenizerFile: file, configFile: file, jinja: undefined, model: undefined, ...rest }
}

/**
 * Reads what a checkpoint says about text: a folder, or a GGUF file with everything inside. `tokenizer.json` may be missing
 * (ids still work, text does not), and so may the template (`chat_template.jinja`, else `chat_template` in
 * `tokenizer_config.json`). What is there but broken is refused with `INVALID_TOKENIZER`, naming the file and the defect.
 * With a cache folder, a large tokenizer is read once and found there, compiled, from then on.
 */
export async function loadText(path: string, cacheFolder?: string): Promise<TextModel> {
  const isFile = await stat(path).then(
    (found) => found.isFile(),
    () => false,
  )
  const from = await (isFile ? readGguf(path, cacheFolder) : readFolder(path, cacheFolder))
  const { tokenizerFile, tokenizerConfig, configFile, jinja, model } = from
  const warnings: string[] = []
  const tokenizer = from.tokenizer && inFile('INVALID_TOKENIZER', tokenizerFile, () => new Tokenizer(from.tokenizer!))
  if (tokenizer === undefined) warnings.push('no tokenizer.json: only token ids can be used, not text')
  else if (!tokenizer.complete)
    warnings.push(`${tokenizerFile} has no token for some bytes: they are dropped from prompts`)
  const rows = model?.vocab_size
  if (tokenizer !== undefined && typeof rows === 'number' && tokenizer.size > rows) {
    throw createError(
      'INVALID_TOKENIZER',
      `tokenizer.json has ids up to ${tokenizer.size - 1}, but config.json says vocab_size ${rows}`,
    )
  }

  const sources =
    jinja === undefined
      ? inFile('INVALID_TOKENIZER', configFile, () => templateSources(tokenizerConfig?.chat_template))
      : new Map([[DEFAULT_TEMPLATE, jinja]])
  const source = jinja === undefined ? `chat_template in ${configFile}` : 'chat_template.jinja'
  const compile = (name: string): ChatTemplate | undefined => {
    const text = sources.get(name)
    return text === undefined ? undefined : inFile('INVALID_TOKENIZER', source, () => new ChatTemplate(text))
  }
  const template = compile(DEFAULT_TEMPLATE)
  if (template === undefined) warnings.push('no chat template: only raw completions can be used, not chat')

  const eos = spelling(tokenizerConfig?.eos_token)
  const endTokens = new Set([
    ...from.endTokens,
    ...[eos, ...END_SPELLINGS]
      .map((text) => (text === undefined ? undefined : tokenizer?.addedId(text)))
      .filter((id) => id !== undefined),
  ])
  if (endTokens.size === 0) warnings.push('no end token is named anywhere: answers end at the token limit only')
  return new TextModelOf({
    tokenizer,
    template,
    toolTemplate: compile(TOOL_TEMPLATE),
    namedTokens: namedTokens(tokenizerConfig),
    endTokens: [...endTokens].sort((a, b) => a - b),
    warnings,
  })
}
