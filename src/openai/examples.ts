/** Whole requests and answers for the API document. Each request is sent to a server by the tests, and answered. */

interface Example {
  readonly summary: string
  readonly value: unknown
}
type Examples = Readonly<Record<string, Example>>

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

/** Bodies of `POST /v1/completions`. */
export const completionExamples: Examples = {
  text: { summary: 'A text', value: { prompt: 'Once upon a time', max_tokens: 16, seed: 42 } },
  ids: { summary: 'Token ids, streamed', value: { prompt: [72, 101, 108], max_tokens: 16, stream: true } },
}

function event(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

function chatEvent(delta: object, reason: string | null = null): string {
  return event({
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
  'data: [DONE]\n\n',
].join('')

function completionEvent(text: string, reason: string | null = null): string {
  return event({
    id: 'cmpl-0123456789abcdef01234567',
    object: 'text_completion',
    created: 1789460000,
    model: 'maple-preview',
    choices: [{ index: 0, text, logprobs: null, finish_reason: reason }],
  })
}

/** A streamed raw completion. */
export const completionStream = [completionEvent(' there'), completionEvent('', 'stop'), 'data: [DONE]\n\n'].join('')

function error(
  message: string,
  code: string | null,
  param: string | null = null,
  type = 'invalid_request_error',
): Example {
  return { summary: code ?? type, value: { error: { message, type, param, code } } }
}

/** Error answers by status, each under its code. */
export const errorExamples: Readonly<Record<string, Examples>> = {
  '400': {
    invalid: error('n must be 1', null, 'n'),
    context_length_exceeded: error(
      'The prompt has 70000 tokens; at most 65536 are accepted. Shorten it or start a new conversation.',
      'context_length_exceeded',
      'messages',
    ),
  },
  '401': { invalid_api_key: error('The API key is wrong.', 'invalid_api_key') },
  '403': {
    host_not_allowed: error(
      'This server answers to loopback names only. Set an API key to open it.',
      'host_not_allowed',
    ),
    origin_not_allowed: error(
      'Pages of this origin may not call this server (MAPLE_ALLOWED_ORIGINS).',
      'origin_not_allowed',
    ),
  },
  '404': {
    unknown_url: error('Unknown request URL: GET /v1/engines', 'unknown_url'),
    model_not_found: error('The model "gpt-4" does not exist here.', 'model_not_found', 'model'),
  },
  '405': { method_not_allowed: error('GET is not allowed here; allowed: POST, OPTIONS', 'method_not_allowed') },
  '413': { request_too_large: error('The request body is larger than 16777216 bytes.', 'request_too_large') },
  '415': {
    unsupported_media_type: error('The charset "koi8-r" is not supported; send UTF-8.', 'unsupported_media_type'),
  },
  '500': { server_error: error('Generation failed inside the model.', null, null, 'server_error') },
  '503': {
    model_loading: error(
      'The model is still loading. /health shows how far it is.',
      'model_loading',
      null,
      'server_error',
    ),
    model_load_failed: error(
      'The model could not be loaded. /health says why.',
      'model_load_failed',
      null,
      'server_error',
    ),
    engine_overloaded: error(
      'The server is busy, with 16 waiting already. Try again later.',
      'engine_overloaded',
      null,
      'server_error',
    ),
    shutting_down: error('The server is shutting down.', 'shutting_down', null, 'server_error'),
  },
}
