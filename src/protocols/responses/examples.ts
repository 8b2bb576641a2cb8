import type { Answer } from '../../chat/collect.js'
import type { Examples } from '../../wire/json-schema.js'
import { responseAnswer } from './answer.js'
import type { ResponseEcho } from './types.js'

/** A tool. */
export const weatherTool = {
  type: 'function',
  name: 'get_weather',
  description: 'The weather of a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}

/** Bodies of `POST /v1/responses`. */
export function responseExamples(model: string): Examples {
  return {
    short: { summary: 'A question', value: { model, input: 'What is 17 * 23?', max_output_tokens: 64 } },
    stream: {
      summary: 'A streamed answer',
      value: { input: 'What is 17 * 23?', max_output_tokens: 64, stream: true },
    },
    direct: {
      summary: 'No reasoning, greedy',
      value: {
        instructions: 'Answer in one word.',
        input: [{ role: 'user', content: [{ type: 'input_text', text: 'What is 17 * 23?' }] }],
        reasoning: { effort: 'none' },
        temperature: 0,
        max_output_tokens: 16,
      },
    },
    toolResult: {
      summary: 'A tool has answered',
      value: {
        input: [
          { role: 'user', content: 'Is it raining in Lagos?' },
          { type: 'function_call', call_id: 'call_3f2a9c', name: 'get_weather', arguments: '{"city": "Lagos"}' },
          { type: 'function_call_output', call_id: 'call_3f2a9c', output: '{"sky": "clear", "celsius": 31}' },
        ],
        tools: [weatherTool],
        max_output_tokens: 64,
      },
    },
  }
}

/** Bodies of `POST /v1/responses/input_tokens`. */
export function countExamples(model: string): Examples {
  return {
    short: { summary: 'A question', value: { model, input: 'What is 17 * 23?' } },
    tools: { summary: 'With a tool', value: { input: 'Is it raining in Lagos?', tools: [weatherTool] } },
  }
}

const echo: ResponseEcho = {
  model: 'maple-preview',
  instructions: null,
  metadata: {},
  tools: [],
  tool_choice: 'auto',
  parallel_tool_calls: true,
  temperature: 0.6,
  top_p: 0.95,
  max_output_tokens: null,
  reasoning: { effort: null, summary: null },
  text: { format: { type: 'text' } },
  truncation: 'disabled',
  service_tier: 'default',
}
const answer: Answer = {
  parts: [
    { type: 'reasoning', text: '17 * 23 = 391.' },
    { type: 'content', text: '391' },
  ],
  reason: 'stop',
  usage: { promptTokens: 22, completionTokens: 14, cachedTokens: 0, reasoningTokens: 10 },
}

/** A streamed response. */
export const responseStream: string = (() => {
  const { stream } = responseAnswer(echo, { includeReasoning: true, customTools: new Set() })
  const { parts, ...finish } = answer
  return [
    stream.start(),
    ...[...parts, { type: 'finish' as const, ...finish }].map((event) => stream.push(event)),
    stream.end(),
  ].join('')
})()
