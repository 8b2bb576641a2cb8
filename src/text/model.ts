import { createError } from '../errors.js'
import { Str } from './str.js'
import type { ChatTemplate } from './template.js'
import { TemplateError } from './template.js'
import type { Tokenizer } from './tokenizer.js'
import type { Detokenizer, EncodeOptions, RenderedPrompt, RenderInput, TextModel } from './types.js'

/** What a text model is put together from. */
export interface TextParts {
  readonly tokenizer: Tokenizer | undefined
  readonly template: ChatTemplate | undefined
  /** Used in place of `template` when there are tools. */
  readonly toolTemplate?: ChatTemplate | undefined
  /** Spellings of special tokens that templates know by name, such as `bos_token`. */
  readonly namedTokens?: ReadonlyMap<string, string>
  readonly endTokens: readonly number[]
  readonly warnings: readonly string[]
}

/** {@link TextModel} over a tokenizer and a template. */
export class TextModelOf implements TextModel {
  constructor(private readonly parts: TextParts) {}

  get hasTokenizer(): boolean {
    return this.parts.tokenizer !== undefined
  }

  get hasTemplate(): boolean {
    return this.parts.template !== undefined
  }

  get endTokens(): readonly number[] {
    return this.parts.endTokens
  }

  get turnStart(): number | undefined {
    return this.parts.tokenizer?.addedId('<|im_start|>')
  }

  get warnings(): readonly string[] {
    return this.parts.warnings
  }

  private get tokenizer(): Tokenizer {
    if (this.parts.tokenizer !== undefined) return this.parts.tokenizer
    throw createError(
      'TOKENIZER_MISSING',
      'This checkpoint has no tokenizer.json. Pass token ids instead of text, or add the file to its folder.',
    )
  }

  tokenize(text: string, { special = true }: { special?: boolean } = {}): Uint32Array {
    return this.tokenizer.encode(checkText(text), special)
  }

  async tokenizeAsync(text: string, options: { special?: boolean } & EncodeOptions = {}): Promise<Uint32Array> {
    return this.tokenizer.encodePieces(this.tokenizer.pieces(checkText(text), options.special ?? true), options)
  }

  detokenize(ids: Iterable<number>, { special = false }: { special?: boolean } = {}): string {
    const stream = this.tokenizer.detokenizer(special)
    return stream.push(checkIds(ids)) + stream.end()
  }

  detokenizer({ special = false }: { special?: boolean } = {}): Detokenizer {
    return this.tokenizer.detokenizer(special)
  }

  render({ messages, tools, addGenerationPrompt = true, variables = {}, suffix }: RenderInput): RenderedPrompt {
    const { template, toolTemplate, namedTokens } = this.parts
    if (template === undefined) {
      throw createError(
        'INVALID_REQUEST',
        'This checkpoint has no chat template, so it cannot chat. Use raw completions, or add chat_template.jinja to its folder.',
        { param: 'messages' },
      )
    }
    const withTools = tools !== undefined && tools.length > 0
    const data = new Map<string, unknown>([
      ...Object.entries(variables),
      ['messages', messages],
      ['tools', withTools ? tools : null],
      ['add_generation_prompt', addGenerationPrompt],
    ])
    try {
      const text = ((withTools && toolTemplate) || template).render(data, namedTokens)
      return suffix === undefined ? text : Str.concat([text, Str.own(suffix(text))])
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error
      throw createError('INVALID_REQUEST', `The chat template refuses this conversation: ${error.message}`, {
        param: 'messages',
        cause: error,
      })
    }
  }

  async encodePrompt(prompt: RenderedPrompt, options?: EncodeOptions): Promise<Uint32Array> {
    return this.tokenizer.encodePieces(this.tokenizer.cut(prompt), options)
  }

  encodePromptSync(prompt: RenderedPrompt): Uint32Array {
    return this.tokenizer.encodeAll(this.tokenizer.cut(prompt))
  }
}

function checkText(text: unknown): string {
  if (typeof text === 'string') return text
  throw createError('INVALID_ARGUMENT', `text must be a string, found ${typeof text}`, { param: 'text' })
}

function checkIds(ids: unknown): readonly number[] {
  const list =
    typeof ids === 'object' && ids !== null && Symbol.iterator in ids ? [...(ids as Iterable<unknown>)] : [NaN]
  if (list.every((id) => Number.isInteger(id) && Number(id) >= 0)) return list as number[]
  throw createError('INVALID_ARGUMENT', 'ids must be a list of token ids', { param: 'ids' })
}
