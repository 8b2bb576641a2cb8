import { prepareChat, renderChat, runChat, runCompletion } from './chat/run.js'
import type {
  ChatEvent,
  ChatParams,
  CompletionEvent,
  CompletionParams,
  PreparedPrompt,
  PromptParams,
  ToolCall,
  Usage,
} from './chat/types.js'
import { processEnv } from './config.js'
import {
  checkCall,
  checkCallback,
  checkIds,
  checkObject,
  checkParams,
  checkPrompt,
  tooLong,
} from './engine/arguments.js'
import { tokenStream } from './engine/generate.js'
import type { GenerateParams, ModelInfo, TokenEngine, TokenEvent } from './engine/types.js'
import { createError } from './errors.js'
import { packedCacheDir, resolveModel } from './hub/index.js'
import { type NativeLoadOptions, type NativeModel, fromNative, loadAddon } from './native.js'
import { loadText } from './text/load.js'
import type { TextModel } from './text/types.js'

/** How far a load is. The phases follow one another; those that need no work are left out. */
export interface LoadProgress {
  readonly phase: 'download' | 'convert' | 'load'
  readonly loadedBytes: number
  readonly totalBytes: number
}

/** How to load and run a model. Absent means the default in brackets. */
export interface LoadOptions {
  /** Numeric mode: `float32`, `int16` (15-bit activations) or `int8` [`auto`, which is `int16`]. */
  dtype?: 'auto' | 'float32' | 'int16' | 'int8' | undefined
  /** Compute threads; 0 is as many as this process may really use [0]. */
  threads?: number | undefined
  /** Most tokens of prompt and answer together [what the checkpoint was made for]. Memory grows with use, not with this. */
  contextLength?: number | undefined
  /** Kernel set: `scalar`, `avx2`, `avxvnni`, `avx512vnni`, `neon`, `neon-dotprod` [`auto`: the best this CPU has]. */
  isa?: string | undefined
  /** Pack exactly ternary matrices to two bits; false keeps all of them at source precision [`auto`, which is true]. */
  packExperts?: 'auto' | boolean | undefined
  /** Make the attention projections ternary by the rule the model was trained with, as its 2-bit exports do [false]. */
  ternarizeAttention?: boolean | undefined
  /** Map weight files instead of reading them; turn it off for files that others may cut or rewrite meanwhile [true]. */
  mmap?: boolean | undefined
  /** Folder for packed copies of checkpoints; false makes none [`maple-cpu` in the user's cache folder]. */
  cacheFolder?: string | false | undefined
  /** Answers in work at once; further ones wait [16]. */
  maxSequences?: number | undefined
  /** Most bytes of KV state kept for later prompts; 0 keeps none [1 GiB]. */
  prefixCacheBytes?: number | undefined
  /** Rows a step of the engine may have, at most; large prompts are cut into steps [512]. */
  stepRows?: number | undefined
  /** The environment that names caches, the hub and its token [this process's]. */
  env?: Readonly<Record<string, string | undefined>> | undefined
  /** Told how far loading is, a few times a second. What it throws is ignored. */
  onProgress?: ((progress: LoadProgress) => void) | undefined
  /** Told at once of things worth knowing, one line each; {@link ModelInfo.warnings} has them too. */
  onWarning?: ((message: string) => void) | undefined
  /** Aborting rejects with the signal's reason. */
  signal?: AbortSignal | undefined
}

/** How a call is cut short and watched. */
export interface CallOptions {
  /** Aborting rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Told of each generated token when it comes, which is before the text it is part of can be sent. */
  readonly onToken?: ((token: { readonly cachedTokens: number }) => void) | undefined
}

/** A whole answer, collected. */
export interface Completion {
  readonly message: {
    readonly role: 'assistant'
    /** Text after the reasoning; null when the answer was only tool calls. */
    readonly content: string | null
    /** Absent where there was none. */
    readonly reasoningContent?: string
    /** Absent where there was none. */
    readonly toolCalls?: readonly ToolCall[]
  }
  readonly finishReason: 'stop' | 'length' | 'tool_calls'
  readonly usage: Usage
}

/**
 * A loaded model.
 *
 * ```ts
 * await using model = await Maple.load('sprout')
 * for await (const event of model.chat({ messages: [{ role: 'user', content: 'Hello' }] })) {
 *   if (event.type === 'content') process.stdout.write(event.text)
 * }
 * ```
 */
export class Maple implements TokenEngine {
  /** What was loaded and how it runs. */
  readonly info: ModelInfo
  /** Tokenizer and chat template. */
  readonly text: TextModel
  readonly #native: NativeModel
  readonly #endTokens: readonly number[]

  private constructor(native: NativeModel, text: TextModel, resolved: { spec: string; warnings: readonly string[] }) {
    const { endTokens, warnings, ...info } = native.info
    this.#native = native
    this.text = text
    this.#endTokens = [...new Set([...endTokens, ...text.endTokens])].filter((id) => id < info.vocabSize)
    this.info = Object.freeze({
      ...info,
      modelPath: resolved.spec,
      warnings: Object.freeze([...new Set([...resolved.warnings, ...warnings, ...text.warnings])]),
    })
  }

  /**
   * Loads a model: a repo id on the hub (`org/name`, `org/name@revision`, `org/name:file.gguf`), a folder, a GGUF file, or
   * `sprout`, the small model that comes with the package.
   *
   * @throws MapleError with the codes of {@link resolveModel}, and `MODEL_NOT_FOUND`, `UNSUPPORTED_MODEL`,
   *   `INVALID_CHECKPOINT`, `INVALID_TOKENIZER`, `INVALID_ARGUMENT`, `OUT_OF_MEMORY`, `NATIVE_MISSING`
   */
  static async load(spec: string, options: LoadOptions = {}): Promise<Maple> {
    options = checkCall('options', options)
    checkCallback('onProgress', options.onProgress)
    checkCallback('onWarning', options.onWarning)
    const { signal } = options
    signal?.throwIfAborted()
    const env = options.env ?? processEnv()
    const addon = await loadAddon()
    const onProgress = quiet(options.onProgress)
    const onWarning = quiet(options.onWarning)
    const { path, warnings } = await resolveModel(spec, { env, signal, onProgress, onWarning })

    const cancellation = new addon.Cancellation()
    const cancel = cancellation.cancel.bind(cancellation)
    signal?.addEventListener('abort', cancel, { once: true })
    if (signal?.aborted === true) cancel()
    try {
      const [native, text] = await Promise.allSettled([
        // In a function of its own, because options that cannot be are refused by a plain throw.
        (async () => addon.loadModel(path, nativeOptions(options, env), onProgress, cancellation))(),
        loadText(path, packedFolder(options, env)),
      ])
      if (native.status === 'rejected') throw fromNative(native.reason)
      if (text.status === 'rejected' || signal?.aborted === true) await native.value.dispose()
      if (text.status === 'rejected') throw text.reason
      signal?.throwIfAborted()
      return new Maple(native.value, text.value, { spec, warnings })
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    } finally {
      signal?.removeEventListener('abort', cancel)
    }
  }

  /**
   * Token ids that follow a prompt of token ids. The last event has the finish reason and no token.
   *
   * @throws MapleError `INVALID_ARGUMENT`, `CONTEXT_LENGTH_EXCEEDED`, `DISPOSED`, `ENGINE_FAILED`, from the first pull on
   */
  generate(promptIds: Uint32Array | readonly number[], params: GenerateParams = {}): AsyncIterableIterator<TokenEvent> {
    const prepare = () => ({
      prompt: checkPrompt(promptIds, this.info),
      params: checkParams(params, this.info, this.#endTokens),
    })
    return tokenStream(this.#native, prepare, (params as GenerateParams | null)?.signal)
  }

  /**
   * Answers a conversation: reasoning, content and tool calls as they come, then one `finish` event.
   *
   * @throws MapleError those of {@link generate}, and `INVALID_REQUEST`, `TOKENIZER_MISSING`
   */
  async *chat(params: ChatParams, options: CallOptions = {}): AsyncGenerator<ChatEvent, undefined> {
    options = checkCall('options', options)
    yield* this.runChat(await this.prepareChat(params, options), params, options)
  }

  /** Answers a conversation and collects the answer. Throws what {@link chat} throws. */
  async complete(params: ChatParams, options: CallOptions = {}): Promise<Completion> {
    let content = ''
    let reasoning = ''
    const toolCalls: ToolCall[] = []
    for await (const event of this.chat(params, options)) {
      switch (event.type) {
        case 'content':
          content += event.text
          break
        case 'reasoning':
          reasoning += event.text
          break
        case 'tool_call':
          toolCalls.push(event.call)
          break
        case 'finish': {
          const message = {
            role: 'assistant' as const,
            content: content === '' && toolCalls.length > 0 ? null : content,
            ...(reasoning === '' ? {} : { reasoningContent: reasoning }),
            ...(toolCalls.length === 0 ? {} : { toolCalls }),
          }
          return { message, finishReason: event.reason, usage: event.usage }
        }
      }
    }
    throw createError('ENGINE_FAILED', 'The answer ended without a finish event.')
  }

  /**
   * Logits after each of the asked positions (in their order; none: the last), from the head at source precision.
   *
   * @returns one row of `info.vocabSize` numbers for each position
   * @throws MapleError `INVALID_ARGUMENT`, `CONTEXT_LENGTH_EXCEEDED`, `DISPOSED`, `ENGINE_FAILED`
   */
  async logits(
    ids: Uint32Array | readonly number[],
    options: { positions?: readonly number[] | undefined; signal?: AbortSignal | undefined } = {},
  ): Promise<Float32Array[]> {
    options = checkCall('options', options)
    const { signal } = options
    signal?.throwIfAborted()
    const prompt = checkIds('ids', ids, this.info)
    if (prompt.length > this.info.contextLength) throw tooLong(prompt.length, this.info.contextLength)
    const asked = options.positions ?? [prompt.length - 1]
    // What is no list is refused as a list of itself.
    for (const at of Array.isArray(asked) ? (asked as readonly number[]) : [asked as unknown as number]) {
      if (!Number.isInteger(at) || at < 0 || at >= prompt.length) {
        const message = `\`positions\` must be positions below ${prompt.length}, got ${String(at)}`
        throw createError('INVALID_ARGUMENT', message, { param: 'positions' })
      }
    }
    if (asked.length === 0) return []
    const ascending = [...new Set(asked)].sort((a, b) => a - b)
    const cancellation = new (await loadAddon()).Cancellation()
    const cancel = cancellation.cancel.bind(cancellation)
    signal?.addEventListener('abort', cancel, { once: true })
    try {
      const rows = await this.#native.logits(prompt, ascending, cancellation)
      const width = this.info.vocabSize
      const starts = new Map(ascending.map((at, row) => [at, row * width]))
      return asked.map((at) => rows.slice(starts.get(at), (starts.get(at) ?? 0) + width))
    } catch (error) {
      signal?.throwIfAborted()
      throw fromNative(error)
    } finally {
      signal?.removeEventListener('abort', cancel)
    }
  }

  /** Ids of a text; spellings of control tokens become those tokens unless `special` is false [true]. */
  tokenize(text: string, options?: { special?: boolean }): Uint32Array {
    return this.text.tokenize(text, checkObject('options', options))
  }

  /** {@link tokenize} for long texts: gives way to other work every few milliseconds. */
  async tokenizePrompt(text: string, options: CallOptions = {}): Promise<Uint32Array> {
    return this.text.tokenizeAsync(text, checkCall('options', options))
  }

  /** Text of ids; control tokens are left out unless `special` is true [false]. */
  detokenize(ids: Iterable<number>, options?: { special?: boolean }): string {
    const { special = false } = checkObject('options', options)
    const list = Symbol.iterator in Object(ids) ? [...ids] : ids
    if (Array.isArray(list) && list.length === 0) return ''
    return this.text.detokenize(checkIds('ids', list, this.info), { special })
  }

  /**
   * The prompt of a conversation, as text and as ids.
   *
   * @throws MapleError `INVALID_REQUEST`, `TOKENIZER_MISSING`
   */
  renderChat(params: PromptParams): PreparedPrompt {
    return renderChat(this.text, params)
  }

  /** {@link renderChat} for long conversations: gives way to other work every few milliseconds. */
  async prepareChat(params: PromptParams, options: CallOptions = {}): Promise<PreparedPrompt> {
    return prepareChat(this.text, params, checkCall('options', options))
  }

  /** Answers a prepared conversation. */
  runChat(prompt: PreparedPrompt, params: ChatParams, options: CallOptions = {}): AsyncIterable<ChatEvent> {
    return runChat(this, this.text, prompt, params, checkCall('options', options))
  }

  /** Goes on with a raw prompt: no template, no reading of reasoning or tool calls. */
  runCompletion(ids: Uint32Array, params: CompletionParams, options: CallOptions = {}): AsyncIterable<CompletionEvent> {
    return runCompletion(this, this.text, ids, params, checkCall('options', options))
  }

  /**
   * Ends everything in work with `DISPOSED`, waits for the step in hand, and frees the model. May be called again.
   *
   * @throws MapleError `ENGINE_FAILED`
   */
  async dispose(): Promise<void> {
    await this.#native.dispose().catch((error: unknown) => {
      throw fromNative(error)
    })
  }

  /** {@link dispose}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose()
  }
}

/** A callback whose exceptions stay its own. */
function quiet<T>(callback: ((value: T) => void) | undefined): ((value: T) => void) | undefined {
  if (callback === undefined) return undefined
  return (value) => {
    try {
      callback(value)
    } catch {
      // Progress and warnings are for display: a fault there must not end the load.
    }
  }
}

/** Where copies in this program's own form are kept, if anywhere. */
function packedFolder(
  { cacheFolder }: LoadOptions,
  env: Readonly<Record<string, string | undefined>>,
): string | undefined {
  return cacheFolder === false ? undefined : (cacheFolder ?? packedCacheDir(env))
}

function nativeOptions(options: LoadOptions, env: Readonly<Record<string, string | undefined>>): NativeLoadOptions {
  const { dtype = 'auto', isa = 'auto', packExperts = 'auto' } = options
  const cacheFolder = packedFolder(options, env)
  const native: NativeLoadOptions = {}
  if (dtype !== 'auto') native.dtype = dtype
  if (isa !== 'auto') native.isa = isa
  if (packExperts !== 'auto') native.packExperts = packExperts
  if (cacheFolder !== undefined) native.cacheFolder = cacheFolder
  for (const name of ['threads', 'contextLength', 'maxSequences', 'prefixCacheBytes', 'stepRows'] as const) {
    const value = options[name]
    if (value !== undefined) native[name] = value
  }
  for (const name of ['ternarizeAttention', 'mmap'] as const) {
    const value = options[name]
    if (value !== undefined) native[name] = value
  }
  return native
}
