import { StopFilter } from '../engine/stop.js'
import type { TokenEngine } from '../engine/types.js'
import { createError } from '../errors.js'
import { wellFormed } from '../text/str.js'
import type { RenderedPrompt, TextModel } from '../text/types.js'
import { checkConstraint } from './constraint.js'
import { MarkerSearch } from './marker.js'
import { templateMessages, templateTools, templateVariables } from './messages.js'
import { ChatParser } from './parser.js'
import type {
  ChatEvent,
  ChatParams,
  CompletionEvent,
  CompletionParams,
  ConstraintParams,
  PreparedPrompt,
  PromptParams,
  SamplingParams,
  Usage,
} from './types.js'

/** How a call is cut short and watched. */
export interface RunOptions {
  readonly signal?: AbortSignal | undefined
  /** Told of each generated token when it comes, which is before the text it is part of can be sent. */
  readonly onToken?: ((token: { readonly cachedTokens: number }) => void) | undefined
}

const OPEN_THINK = '<think>'
const CLOSE_THINK = '</think>'

/**
 * Renders and encodes a conversation. Encoding gives way to other work, so long prompts do not block the thread. Rejects
 * with `INVALID_REQUEST` (and the field as `param`) when the messages break a rule or the template refuses them.
 */
export async function prepareChat(
  text: TextModel,
  params: PromptParams & ConstraintParams,
  { signal }: RunOptions = {},
): Promise<PreparedPrompt> {
  const rendered = render(text, params)
  return prepared(text, rendered, await text.encodePrompt(rendered, { signal }))
}

/** {@link prepareChat} at one go. */
export function renderChat(text: TextModel, params: PromptParams & ConstraintParams): PreparedPrompt {
  const rendered = render(text, params)
  return prepared(text, rendered, text.encodePromptSync(rendered))
}

function render(text: TextModel, params: PromptParams & ConstraintParams): RenderedPrompt {
  const given: unknown = params
  if (typeof given !== 'object' || given === null)
    throw createError('INVALID_REQUEST', 'a chat needs an object with messages', { param: 'messages' })
  checkConstraint(params)
  const { variables, thinking } = templateVariables(params.chatTemplateKwargs, params.enableThinking)
  return text.render({
    messages: templateMessages(params.messages),
    tools: templateTools(params.tools, params.toolChoice),
    variables,
    // With thinking off the block that the template opens is closed at once.
    suffix: (prompt) => (!thinking && leavesThinkOpen(prompt) ? `\n${CLOSE_THINK}\n\n` : ''),
  })
}

function prepared(text: TextModel, rendered: RenderedPrompt, ids: Uint32Array): PreparedPrompt {
  return {
    ids,
    text: rendered.text,
    snapshotAt: turnStarts(ids, text.turnStart),
    thinking: leavesThinkOpen(rendered),
  }
}

/** Whether the template itself ends the prompt inside a reasoning block. */
function leavesThinkOpen({ text, own }: RenderedPrompt): boolean {
  const start = text.trimEnd().length - OPEN_THINK.length
  return text.startsWith(OPEN_THINK, start) && (own.at(-2) ?? text.length) <= start
}

/** Where the generation prompt's turn starts, and the turn before it: what the next request is likely to share ends there. */
function turnStarts(ids: Uint32Array, turnStart: number | undefined): number[] {
  if (turnStart === undefined) return []
  const last = ids.lastIndexOf(turnStart)
  const before = last > 0 ? ids.lastIndexOf(turnStart, last - 1) : -1
  return [before, last].filter((position) => position > 0)
}

/** Generates the answer to a prepared prompt. Leaving the loop, or aborting, ends the generation. */
export async function* runChat(
  engine: TokenEngine,
  text: TextModel,
  prompt: PreparedPrompt,
  params: ChatParams,
  options: RunOptions = {},
): AsyncGenerator<ChatEvent, void, undefined> {
  const parser = new ChatParser({ thinking: prompt.thinking })
  const counter = new ReasoningCounter()
  for await (const step of rawAnswer(engine, text, prompt.ids, params, options, prompt.snapshotAt, counter)) {
    if (step.type === 'text') {
      yield* parser.push(step.text)
      continue
    }
    yield* parser.end()
    const reason = step.reason === 'stop' && parser.toolCalls > 0 ? 'tool_calls' : step.reason
    const { completionTokens } = step.usage
    const reasoningTokens = !prompt.thinking ? 0 : parser.insideReasoning ? completionTokens : counter.tokens
    yield { ...finish(step), reason, usage: { ...step.usage, reasoningTokens } }
  }
}

/** Generates what follows a raw prompt: no template, no parsing. */
export async function* runCompletion(
  engine: TokenEngine,
  text: TextModel,
  promptIds: Uint32Array | readonly number[],
  params: CompletionParams,
  options: RunOptions = {},
): AsyncGenerator<CompletionEvent, void, undefined> {
  for await (const step of rawAnswer(engine, text, promptIds, params, options)) {
    if (step.type === 'text') yield { type: 'content', text: step.text }
    else yield finish(step)
  }
}

function finish({ reason, stop, usage }: Extract<RawStep, { type: 'end' }>) {
  return { type: 'finish' as const, reason, ...(stop === undefined ? {} : { stop }), usage }
}

/** Counts the generated tokens before the one that completes `</think>`. */
class ReasoningCounter {
  tokens = 0
  private closed = false
  private readonly search = new MarkerSearch(CLOSE_THINK)

  /** One more token, and the text it completed. */
  add(text: string): void {
    if (this.closed) return
    this.closed = this.search.push(text).after !== undefined
    if (!this.closed) this.tokens += 1
  }
}

type RawStep =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'end'; readonly reason: 'stop' | 'length'; readonly stop?: string; readonly usage: Usage }

/** The decoded output up to a stop string, in pieces that are never empty, then its end. */
async function* rawAnswer(
  engine: TokenEngine,
  text: TextModel,
  promptIds: Uint32Array | readonly number[],
  params: SamplingParams,
  { signal, onToken }: RunOptions,
  snapshotAt?: readonly number[],
  counter?: ReasoningCounter,
): AsyncGenerator<RawStep, void, undefined> {
  const { stop, ...sampling } = params
  const filter = new StopFilter(stopStrings(stop))
  const detokenizer = text.detokenizer()
  let generated = 0
  let cachedTokens = 0
  const usage = (completionTokens: number): Usage => ({
    promptTokens: promptIds.length,
    completionTokens,
    cachedTokens,
    reasoningTokens: 0,
  })

  const generation = engine.generate(promptIds, {
    ...pickSampling(sampling),
    endTokens: text.endTokens.length > 0 ? text.endTokens : undefined,
    snapshotAt,
    signal,
  })
  for await (const event of generation) {
    if (event.token !== undefined) {
      generated += 1
      cachedTokens = event.cachedTokens ?? cachedTokens
      onToken?.({ cachedTokens })
      const piece = detokenizer.push([event.token])
      counter?.add(piece)
      const step = filter.push(piece)
      if (step.text !== '') yield { type: 'text', text: step.text }
      if (step.stop === undefined) continue
      yield { type: 'end', reason: 'stop', stop: step.stop, usage: usage(generated) }
      return
    }
    cachedTokens = event.cachedTokens
    const held = filter.push(detokenizer.end())
    const rest = held.stop === undefined ? filter.end() : { text: '', stop: held.stop }
    if (held.text + rest.text !== '') yield { type: 'text', text: held.text + rest.text }
    const { stop: found } = rest
    const end = found === undefined ? { reason: event.finishReason } : { reason: 'stop' as const, stop: found }
    yield { type: 'end', ...end, usage: usage(event.completionTokens) }
    return
  }
  throw new Error('the engine ended an answer without saying why')
}

/** Stop strings as a list. Throws `INVALID_REQUEST` for anything else. */
function stopStrings(stop: unknown): string[] {
  return [stop ?? []].flat().map((text) => {
    if (typeof text === 'string') return wellFormed(text)
    throw createError('INVALID_REQUEST', 'stop must be a string or a list of strings', { param: 'stop' })
  })
}

/** The sampling fields alone: parameters may carry others that mean nothing to an engine. */
function pickSampling({ maxTokens, temperature, topK, topP, repetitionPenalty, seed }: SamplingParams): SamplingParams {
  return { maxTokens, temperature, topK, topP, repetitionPenalty, seed }
}
