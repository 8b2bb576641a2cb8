import type { ChatParams } from '../../chat/types.js'
import type { RequestDefaults } from '../../wire/defaults.js'
import { invalidRequest, quote } from '../../wire/errors.js'
import { readSampling } from '../../wire/openai/sampling.js'
import type { ChatBody } from './schema.js'

/** Parameters of a body that passed its schema. */
export function readChat(body: ChatBody, defaults: RequestDefaults): ChatParams {
  const choice = body.tool_choice
  if (typeof choice === 'object' && choice !== null) {
    const { name } = choice.function
    if (!body.tools?.some((tool) => tool.function.name === name)) {
      throw invalidRequest(`tool_choice names ${quote(name)}, which is not among tools`, 'tool_choice')
    }
  }
  return {
    ...readSampling(body, defaults),
    messages: body.messages,
    tools: body.tools?.length ? body.tools : undefined,
    toolChoice: choice ?? undefined,
    enableThinking: defaults.enableThinking,
    chatTemplateKwargs: body.chat_template_kwargs ?? undefined,
  }
}
