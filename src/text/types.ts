/** Turns ids into text, whole characters only: what ends inside a UTF-8 sequence is held until the character is whole. */
export interface Detokenizer {
  /** The text that these ids complete. */
  push(ids: Iterable<number>): string
  /** What is still held: U+FFFD for a character that never became whole. */
  end(): string
}

/** What a chat template is given. Every string in here is data: it can not become a control token. */
export interface RenderInput {
  readonly messages: readonly unknown[]
  readonly tools?: readonly unknown[] | undefined
  readonly addGenerationPrompt?: boolean | undefined
  /** Text to append as the template's own, decided on what it rendered. */
  readonly suffix?: ((rendered: RenderedPrompt) => string) | undefined
  /** More variables, by name. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined
}

/** A rendered prompt: its text, and which stretches of it the template wrote itself, as pairs [start, end). */
export interface RenderedPrompt {
  readonly text: string
  readonly own: readonly number[]
}

/** When an encoding gives up. */
export interface EncodeOptions {
  readonly signal?: AbortSignal | undefined
}

/** What a checkpoint's folder says about text: tokenizer, chat template, end tokens. */
export interface TextModel {
  /** False when the folder has no tokenizer; then every call on text throws `TOKENIZER_MISSING`. */
  readonly hasTokenizer: boolean
  readonly hasTemplate: boolean
  /** Ids that end an answer, smallest first. */
  readonly endTokens: readonly number[]
  /** Id of the control token that starts a turn, where there is one. */
  readonly turnStart: number | undefined
  /** Things worth telling the operator, one line each. */
  readonly warnings: readonly string[]
  /** Ids of a text; spellings of control tokens become those tokens unless `special` is false [true]. */
  tokenize(text: string, options?: { special?: boolean }): Uint32Array
  /** The same, giving way to other work every few milliseconds. */
  tokenizeAsync(text: string, options?: { special?: boolean } & EncodeOptions): Promise<Uint32Array>
  /** Text of ids, as a stream of them would give it; `special` shows control tokens too [false]. */
  detokenize(ids: Iterable<number>, options?: { special?: boolean }): string
  detokenizer(options?: { special?: boolean }): Detokenizer
  /** Renders the chat template, with `suffix` as more of its own text. Throws `INVALID_REQUEST` when there is none, or when it raises. */
  render(input: RenderInput): RenderedPrompt
  /** Ids of a rendered prompt, giving way to other work every few milliseconds. */
  encodePrompt(prompt: RenderedPrompt, options?: EncodeOptions): Promise<Uint32Array>
  /** The same at one go. */
  encodePromptSync(prompt: RenderedPrompt): Uint32Array
}
