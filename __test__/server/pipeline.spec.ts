import t from 'tap'
import { assemble, serve } from '../helpers/http.js'
import { scriptedModel } from '../helpers/scripted-model.js'

const chat = '/v1/chat/completions'
const messages = [{ role: 'user', content: 'Weather?' }]
const tools = [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }]

let output = ''
const model = await scriptedModel(() => output)

const call = (json: string) => `<tool_call>\n${json}\n</tool_call>`
const weather = '{"name": "get_weather", "arguments": {"city": "Lagos", "id": 12345678901234567890}}'

/** Raw output, fields of the request, and the message that must come out of it, streamed or not. */
const cases: { name: string; raw: string; body?: object; message: object; finish: string; reasoning?: number }[] = [
  {
    name: 'reasoning, then content',
    raw: 'Let me think.\n</think>\n\nIt is 31 °C 🍁.',
    message: { content: 'It is 31 °C 🍁.', reasoning_content: 'Let me think.' },
    finish: 'stop',
  },
  {
    name: 'tool calls keep the model’s own text of their arguments',
    raw: `Look it up.\n</think>\n\n${call(weather)}\n${call('{"name": "f"}')}`,
    body: { tools },
    message: {
      content: null,
      reasoning_content: 'Look it up.',
      tool_calls: [
        {
          type: 'function',
          function: { name: 'get_weather', arguments: '{"city": "Lagos", "id": 12345678901234567890}' },
        },
        { type: 'function', function: { name: 'f', arguments: '{}' } },
      ],
    },
    finish: 'tool_calls',
  },
  {
    name: 'a block that is no call stays text',
    raw: 'x</think>See <tool_call>not json</tool_call> there',
    message: { content: 'See <tool_call>not json</tool_call> there', reasoning_content: 'x' },
    finish: 'stop',
  },
  {
    name: 'a stop string across everything, reasoning included',
    raw: 'One two STOP three</think>four',
    body: { stop: ['STOP', 'three'] },
    message: { content: '', reasoning_content: 'One two ' },
    finish: 'stop',
  },
  {
    name: 'cut inside the reasoning',
    raw: 'abcdefgh</think>x',
    body: { max_tokens: 4 },
    message: { content: '', reasoning_content: 'abcd' },
    finish: 'length',
  },
  {
    name: 'without thinking the answer starts at once',
    raw: 'Plain.',
    body: { chat_template_kwargs: { enable_thinking: false } },
    message: { content: 'Plain.' },
    finish: 'stop',
  },
  {
    name: 'reasoning left out on request',
    raw: 'Hm</think>Yes',
    body: { include_reasoning: false },
    message: { content: 'Yes' },
    finish: 'stop',
  },
  {
    name: 'held-back text is released at the end',
    raw: 'a</think>b</thi',
    message: { content: 'b</thi', reasoning_content: 'a' },
    finish: 'stop',
  },
]

t.test('the same raw output gives the same message, streamed or not', async (t) => {
  const { post } = await serve(t, model)
  for (const { name, raw, body, message, finish } of cases) {
    output = raw
    const whole: any = await (await post(chat, { messages, ...body })).json()
    const streamed = await assemble(
      await post(chat, { messages, ...body, stream: true, stream_options: { include_usage: true } }),
    )
    t.match(whole.choices[0].message, message, name)
    t.strictSame(Object.keys(whole.choices[0].message).sort(), ['role', ...Object.keys(message)].sort(), name)
    t.equal(whole.choices[0].finish_reason, finish, name)
    const withoutIds = (value: object) => JSON.stringify(value).replace(/call_[0-9a-f]{24,}/g, 'call')
    const expected = { ...whole.choices[0].message, content: whole.choices[0].message.content ?? '' }
    t.strictSame(JSON.parse(withoutIds(streamed.message)), JSON.parse(withoutIds(expected)), name)
    t.equal(streamed.finish, finish, name)
    t.strictSame(streamed.usage, whole.usage, name)
  }
})

t.test('a conversation with calls and results goes back in', async (t) => {
  const { post } = await serve(t, model)
  output = `Look.\n</think>\n\n${call(weather)}`
  const first: any = await (await post(chat, { messages, tools })).json()
  const { message } = first.choices[0]
  t.match(message.tool_calls[0].id, /^call_[0-9a-f]{24,}$/)
  output = 'Good.</think>31 °C'
  const history = [...messages, message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: '31 °C' }]
  const second: any = await (await post(chat, { messages: history, tools })).json()
  t.equal(second.choices[0].message.content, '31 °C')
  t.ok(second.usage.prompt_tokens > first.usage.prompt_tokens)
})

t.test('raw completions are not parsed', async (t) => {
  const { post } = await serve(t, model)
  output = `a</think>${call(weather)}`
  const body: any = await (await post('/v1/completions', { prompt: 'x' })).json()
  t.equal(body.choices[0].text, output)
})
