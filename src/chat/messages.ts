import { createError, type MapleError } from '../errors.js'
import { parseJson } from '../text/json.js'
import type { ChatMessage, HistoryToolCall, Tool, ToolChoice } from './types.js'

/** Template variables that a request may not set beside the fields that already do. */
const RESERVED = ['messages', 'tools', 'add_generation_prompt']

function refuse(message: string, param: string): MapleError {
  return createError('INVALID_REQUEST', message, { param })
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A message as chat templates know it. Strings only where the template adds strings up. */
interface TemplateMessage {
  readonly role: string
  readonly content: string
  readonly reasoning_content?: string
  readonly tool_calls?: readonly object[]
  readonly tool_call_id?: string
}

/** Messages as the template is to see them. Throws `INVALID_REQUEST` naming the message. */
export function templateMessages(messages: readonly ChatMessage[]): TemplateMessage[] {
  if (!Array.isArray(messages) || messages.length === 0) throw refuse('messages must not be empty', 'messages')
  return messages.map((message: ChatMessage, i) => templateMessage(message, `messages[${i}]`))
}

function templateMessage(message: ChatMessage, param: string): TemplateMessage {
  if (!isObject(message)) throw refuse(`${param} must be an object`, param)
  const role = message.role === 'developer' ? 'system' : message.role
  switch (role) {
    case 'system':
    case 'user':
      if (message.content === null || message.content === undefined) {
        throw refuse(`${param}.content is missing`, `${param}.content`)
      }
      return { role, content: plainText(message.content, param) }
    case 'tool': {
      const content = plainText(message.content ?? '', param)
      return typeof message.tool_call_id === 'string'
        ? { role, content, tool_call_id: message.tool_call_id }
        : { role, content }
    }
    case 'assistant': {
      const reasoning = message.reasoning_content ?? message.reasoning ?? ''
      if (typeof reasoning !== 'string') throw refuse(`${param}: reasoning must be a string`, param)
      const calls = message.tool_calls ?? []
      if (!Array.isArray(calls)) throw refuse(`${param}.tool_calls must be a list`, param)
      return {
        role,
        content: plainText(message.content ?? '', param),
        ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
        ...(calls.length === 0 ? {} : { tool_calls: calls.map((call: HistoryToolCall) => templateCall(call, param)) }),
      }
    }
    default:
      throw refuse(
        `${param}.role must be system, developer, user, assistant or tool, found ${JSON.stringify(message.role)}`,
        param,
      )
  }
}

/** The text of a content: a string, or text parts joined. */
function plainText(content: NonNullable<ChatMessage['content']>, param: string): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) throw refuse(`${param}.content must be a string or a list of parts`, `${param}.content`)
  const parts: readonly unknown[] = content
  return parts
    .map((part, i) => {
      const type = isObject(part) ? part.type : undefined
      if (!isObject(part) || (type !== 'text' && type !== 'input_text')) {
        throw refuse(`${param}.content[${i}] must be a text part: this model reads text only`, param)
      }
      if (typeof part.text !== 'string') throw refuse(`${param}.content[${i}].text is missing`, param)
      return part.text
    })
    .join('')
}

function templateCall(call: HistoryToolCall, param: string): object {
  const fn: unknown = isObject(call) ? call.function : undefined
  if (!isObject(fn) || typeof fn.name !== 'string') throw refuse(`${param}: a tool call needs function.name`, param)
  const id = typeof call.id === 'string' ? { id: call.id } : {}
  return { ...id, type: 'function', function: { name: fn.name, arguments: templateArguments(fn.arguments, param) } }
}

/** Arguments as the template sees them: JSON text parsed without loss, other text as it is. */
function templateArguments(value: unknown, param: string): unknown {
  if (value === null || value === undefined) return {}
  if (isObject(value)) return value
  if (typeof value !== 'string') throw refuse(`${param}: tool call arguments must be a string or an object`, param)
  if (value.trim() === '') return {}
  const parsed = parseJson(value)
  return parsed === undefined ? value : parsed
}

/** The tools that the template is to list. Throws `INVALID_REQUEST` naming the tool or the choice. */
export function templateTools(
  tools: readonly Tool[] | null | undefined,
  choice: ToolChoice | null | undefined,
): readonly Tool[] {
  const all = tools ?? []
  if (!Array.isArray(all)) throw refuse('tools must be a list', 'tools')
  all.forEach((tool: unknown, i) => {
    const fn = isObject(tool) && tool.type === 'function' ? tool.function : undefined
    if (!isObject(fn) || typeof fn.name !== 'string' || fn.name === '') {
      throw refuse(`tools[${i}] must be of type function and have a function.name`, `tools[${i}]`)
    }
    if (fn.parameters !== undefined && fn.parameters !== null && !isObject(fn.parameters)) {
      throw refuse(`tools[${i}].function.parameters must be an object`, `tools[${i}]`)
    }
  })
  return chosen(all as readonly Tool[], choice ?? 'auto')
}

function chosen(tools: readonly Tool[], choice: ToolChoice): readonly Tool[] {
  if (choice === 'none') return []
  if (choice === 'auto' || choice === 'required') return tools
  const fn: unknown = isObject(choice) && choice.type === 'function' ? choice.function : undefined
  if (!isObject(fn) || typeof fn.name !== 'string') {
    throw refuse('tool_choice must be none, auto, required or name a function', 'tool_choice')
  }
  const named = tools.filter((tool) => tool.function.name === fn.name)
  if (named.length === 0)
    throw refuse(`tool_choice names ${JSON.stringify(fn.name)}, which is not among tools`, 'tool_choice')
  return named
}

/** The template's further variables, and whether the model is to think. Throws `INVALID_REQUEST`. */
export function templateVariables(
  kwargs: Readonly<Record<string, unknown>> | null | undefined,
  enableThinking: boolean | undefined,
): { variables: Readonly<Record<string, unknown>>; thinking: boolean } {
  const given: unknown = kwargs ?? {}
  const param = 'chat_template_kwargs'
  if (!isObject(given)) throw refuse(`${param} must be an object`, param)
  for (const name of RESERVED) {
    if (Object.hasOwn(given, name)) throw refuse(`${param} may not set ${name}`, param)
  }
  const own = given.enable_thinking ?? null
  const thinking = own ?? enableThinking ?? true
  if (typeof thinking !== 'boolean') {
    throw refuse('enable_thinking must be true or false', own === null ? 'enableThinking' : param)
  }
  return { variables: { ...given, enable_thinking: thinking }, thinking }
}
