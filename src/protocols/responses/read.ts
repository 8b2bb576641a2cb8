import type { ChatParams, Constraint, PromptParams } from '../../chat/types.js'
import type { RequestDefaults } from '../../wire/defaults.js'
import { invalidRequest } from '../../wire/errors.js'
import { readSampling } from '../../wire/openai/sampling.js'
import { readInput } from './input.js'
import type { CountBody, ResponseBody, TextFormat } from './schema.js'
import { readTools, type ReadTools } from './tools.js'
import type { ResponseEcho } from './types.js'

/** What shapes the prompt, of a body that passed its schema. */
export function readPrompt(body: CountBody, defaults: RequestDefaults): { prompt: PromptParams; tools: ReadTools } {
  if (typeof body.previous_response_id === 'string') {
    const message =
      'Nothing is kept here, so there is no previous response to go on from. Send the whole conversation as input.'
    throw invalidRequest(message, 'previous_response_id', { code: 'previous_response_not_found' })
  }
  const tools = readTools(body)
  const effort = body.reasoning?.effort ?? undefined
  return {
    tools,
    prompt: {
      messages: readInput(body),
      tools: tools.tools.length === 0 ? undefined : tools.tools,
      toolChoice: tools.toolChoice,
      enableThinking: effort === undefined ? defaults.enableThinking : effort !== 'none',
      chatTemplateKwargs: body.chat_template_kwargs ?? undefined,
    },
  }
}

/** Parameters of a body that passed its schema. */
export function readResponse(body: ResponseBody, defaults: RequestDefaults): { params: ChatParams; tools: ReadTools } {
  const { prompt, tools } = readPrompt(body, defaults)
  const { temperature = null, top_p = null, top_k = null, repetition_penalty = null, seed = null } = body
  const max_tokens = body.max_output_tokens ?? null
  const sampling = { temperature, top_p, top_k, repetition_penalty, seed, max_tokens }
  const constraint = readFormat(body.text?.format)
  return {
    tools,
    params: {
      ...readSampling(sampling, defaults),
      ...prompt,
      ...(constraint ? { constraint } : {}),
      ...(tools.strictTools.length === 0 ? {} : { strictTools: tools.strictTools }),
    },
  }
}

function readFormat(format: TextFormat | null | undefined): Constraint | undefined {
  switch (format?.type) {
    case 'json_object':
      return { type: 'json' }
    case 'json_schema':
      return { type: 'json_schema', schema: format.schema }
    default:
      return undefined
  }
}

/** What the response repeats of its request. */
export function readEcho(body: ResponseBody, model: string, { temperature, topP }: ChatParams): ResponseEcho {
  const { user, safety_identifier: safety, prompt_cache_key: cacheKey } = body
  return printable({
    model,
    instructions: body.instructions ?? null,
    metadata: body.metadata ?? {},
    tools: body.tools ?? [],
    tool_choice: body.tool_choice ?? 'auto',
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    temperature: temperature ?? 1,
    top_p: topP ?? 1,
    max_output_tokens: body.max_output_tokens ?? null,
    reasoning: { effort: body.reasoning?.effort ?? null, summary: body.reasoning?.summary ?? null },
    text: { ...body.text, format: body.text?.format ?? { type: 'text' } },
    truncation: body.truncation ?? 'disabled',
    service_tier: body.service_tier ?? 'default',
    ...(typeof user === 'string' ? { user } : {}),
    ...(typeof safety === 'string' ? { safety_identifier: safety } : {}),
    ...(typeof cacheKey === 'string' ? { prompt_cache_key: cacheKey } : {}),
  })
}

/** Whole numbers past 2^53 come as `bigint`, which JSON cannot print; in an echo a double will do. */
function printable<T>(value: T): T {
  if (typeof value === 'bigint') return Number(value) as T
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(printable) as T
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, printable(part) as unknown])) as T
}
