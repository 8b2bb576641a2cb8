import type { Examples } from '../../wire/json-schema.js'
import { DONE_EVENT } from '../../wire/openai/stream.js'
import { formatEvent } from '../../wire/sse.js'

const question = { role: 'user', content: 'What is 17 * 23?' }
/** A tool. */
export const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a city.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

/** Bodies of `POST /v1/chat/completions`. */
export function chatExamples(model: string): Examples {
  return {
    short: { summary: 'A question', value: { model, messages: [question], max_tokens: 64 } },
    stream: {
      summary: 'A streamed answer with token counts at its end',
      value: { messages: [question], max_tokens: 64, stream: true, stream_options: { include_usage: true } },
    },
    direct: {
      summary: 'No reasoning, greedy',
      value: {
        messages: [{ role: 'system', content: 'Answer in one word.' }, question],
        chat_template_kwargs: { enable_thinking: false },
        temperature: 0,
        max_tokens: 16,
      },
    },
    tools: {
      summary: 'With a tool',
      value: { messages: [{ role: 'user', content: 'Is it raining in Lagos?' }], tools: [weather], max_tokens: 64 },
    },
    toolResult: {
      summary: 'A tool has answered',
      value: {
        messages: [
          { role: 'user', content: 'Is it raining in Lagos?' },
          {
            role: 'assistant',
            content: null,
            tool_calls: [
              {
                id: 'call_3f2a9c',
                type: 'function',
                function: { name: 'get_weather', arguments: '{"city": "Lagos"}' },
              },
            ],
          },
          { role: 'tool', tool_call_id: 'call_3f2a9c', content: '{"sky": "clear", "celsius": 31}' },
        ],
        tools: [weather],
        tool_choice: { type: 'function', function: { name: 'get_weather' } },
        max_tokens: 64,
      },
    },
  }
}

function chatEvent(delta: object, reason: string | null = null): string {
  return formatEvent({
    id: 'chatcmpl-0123456789abcdef01234567',
    object: 'chat.completion.chunk',
    created: 1789460000,
    model: 'maple-preview',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: reason }],
  })
}

/** A streamed chat. */
export const chatStream = [
  chatEvent({ role: 'assistant', content: '' }),
  chatEvent({ reasoning_content: '17 * 23 = 391.' }),
  chatEvent({ content: '391' }),
  chatEvent({}, 'stop'),
  DONE_EVENT,
].join('')
