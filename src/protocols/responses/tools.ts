import type { Tool, ToolChoice } from '../../chat/types.js'
import { invalidRequest, quote } from '../../wire/errors.js'
import type { CountBody, ResponseTool, ResponseToolChoice } from './schema.js'

/** The tools of a request as a chat has them. */
export interface ReadTools {
  readonly tools: readonly Tool[]
  readonly toolChoice: ToolChoice | undefined
  /** Names of those that take one text. */
  readonly customTools: ReadonlySet<string>
  /** Names of those whose arguments must fit. */
  readonly strictTools: readonly string[]
  /** Types of those that were left out. */
  readonly leftOut: readonly string[]
}

/** Reads `tools` and `tool_choice`. Throws 400 where the choice names a tool that is not there. */
export function readTools({ tools, tool_choice: choice }: Pick<CountBody, 'tools' | 'tool_choice'>): ReadTools {
  const given = tools ?? []
  const own = given.filter((tool): tool is ResponseTool => tool.type === 'function' || tool.type === 'custom')
  const { shown, toolChoice } = choose(own, choice ?? 'auto')
  return {
    tools: shown.map(chatTool),
    toolChoice,
    customTools: new Set(own.flatMap(({ type, name }) => (type === 'custom' ? [name] : []))),
    strictTools: shown.flatMap((tool) => (tool.type === 'function' && tool.strict ? [tool.name] : [])),
    leftOut: [...new Set(given.map(({ type }) => type))].filter((type) => type !== 'function' && type !== 'custom'),
  }
}

function choose(
  tools: readonly ResponseTool[],
  choice: ResponseToolChoice,
): { shown: readonly ResponseTool[]; toolChoice: ToolChoice | undefined } {
  if (typeof choice === 'string') return { shown: tools, toolChoice: choice === 'auto' ? undefined : choice }
  const find = ({ type, name }: { type: string; name?: string }) =>
    tools.filter((tool) => tool.type === type && tool.name === name)
  if (choice.type === 'allowed_tools') {
    // Hosted ones are left out here as they are among tools.
    const asked = choice.tools.filter(({ type }) => type === 'function' || type === 'custom')
    for (const one of asked) if (find(one).length === 0) throw missing(one.name)
    const shown = tools.filter(({ type, name }) => asked.some((one) => one.type === type && one.name === name))
    return { shown, toolChoice: choice.mode === 'required' ? 'required' : undefined }
  }
  const shown = find(choice)
  if (shown.length === 0) throw missing(choice.name)
  return { shown, toolChoice: { type: 'function', function: { name: choice.name } } }
}

function missing(name = ''): Error {
  return invalidRequest(`tool_choice names ${quote(name)}, which is not among tools`, 'tool_choice')
}

/** Fields in the order in which chat clients write them: the same tool is the same prompt in both protocols. */
function chatTool(tool: ResponseTool): Tool {
  const { name, description } = tool
  const parameters = tool.type === 'custom' ? customParameters(tool.format) : tool.parameters
  return {
    type: 'function',
    function: {
      name,
      ...(typeof description === 'string' ? { description } : {}),
      ...(parameters ? { parameters } : {}),
    },
  }
}

type CustomFormat = Extract<ResponseTool, { type: 'custom' }>['format']

function customParameters(format: CustomFormat): object {
  const { syntax = 'lark', definition } = format ?? {}
  const description =
    definition === undefined ? {} : { description: `Text of this grammar (${syntax}):\n${definition}` }
  return { type: 'object', properties: { input: { type: 'string', ...description } }, required: ['input'] }
}
