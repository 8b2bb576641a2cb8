import t from 'tap'
import { templateMessages, templateTools, templateVariables } from '../../src/chat/messages.js'
import type { ChatMessage, Tool, ToolChoice } from '../../src/chat/types.js'

const one = (message: object): unknown => templateMessages([message as ChatMessage])[0]

t.test('messages as the template sees them', async (t) => {
  t.same(one({ role: 'developer', content: 'x', name: 'n' }), { role: 'system', content: 'x' })
  const parts = [
    { type: 'text', text: 'a' },
    { type: 'input_text', text: 'b' },
  ]
  t.same(one({ role: 'user', content: parts }), { role: 'user', content: 'ab' })
  t.same(one({ role: 'user', content: [] }), { role: 'user', content: '' })
  t.same(one({ role: 'tool', content: null, tool_call_id: 'c' }), { role: 'tool', content: '', tool_call_id: 'c' })
  t.same(one({ role: 'assistant', content: null, reasoning: 'r', tool_calls: [] }), {
    role: 'assistant',
    content: '',
    reasoning_content: 'r',
  })
  const echoed = { content: null, refusal: null, audio: null, annotations: [], function_call: null, tool_calls: null }
  t.same(one({ role: 'assistant', ...echoed, reasoning_content: null }), { role: 'assistant', content: '' })
})

t.test('arguments of calls in the history', async (t) => {
  const args = (value: unknown): unknown => {
    const message = one({ role: 'assistant', tool_calls: [{ id: 'i', function: { name: 'f', arguments: value } }] })
    return (message as { tool_calls: { function: { arguments: unknown } }[] }).tool_calls[0]?.function.arguments
  }
  t.same(args('{"n": 12345678901234567890}'), new Map([['n', 12345678901234567890n]]))
  t.equal(args('{"n": '), '{"n": ')
  t.same(args(null), {})
  t.same(args(''), {})
  t.same(args({ a: 1 }), { a: 1 })
  t.equal(args('['.repeat(100_000)), '['.repeat(100_000))
})

t.test('what is refused, and by what name', async (t) => {
  const bad: [messages: unknown, param: string][] = [
    [[], 'messages'],
    [null, 'messages'],
    [[5], 'messages[0]'],
    [[{ role: 'robot', content: 'x' }], 'messages[0]'],
    [[{ role: 'user', content: 'x' }, { content: 'x' }], 'messages[1]'],
    [[{ role: 'user' }], 'messages[0].content'],
    [[{ role: 'system', content: null }], 'messages[0].content'],
    [[{ role: 'user', content: 5 }], 'messages[0].content'],
    [[{ role: 'user', content: [{ type: 'image_url' }] }], 'messages[0]'],
    [[{ role: 'user', content: [{ type: 'text' }] }], 'messages[0]'],
    [[{ role: 'assistant', tool_calls: [{ function: {} }] }], 'messages[0]'],
    [[{ role: 'assistant', tool_calls: [{ function: { name: 'f', arguments: 5 } }] }], 'messages[0]'],
    [[{ role: 'assistant', reasoning_content: 5 }], 'messages[0]'],
  ]
  for (const [messages, param] of bad) {
    t.throws(
      () => templateMessages(messages as ChatMessage[]),
      { code: 'INVALID_REQUEST', param },
      JSON.stringify(messages),
    )
  }
  for (const tool of [5, {}, { type: 'x', function: { name: 'f' } }, { type: 'function', function: { name: '' } }]) {
    t.throws(() => templateTools([tool] as Tool[], undefined), { code: 'INVALID_REQUEST', param: 'tools[0]' })
  }
  for (const kwargs of [
    5,
    [],
    { messages: [] },
    { tools: null },
    { add_generation_prompt: false },
    { enable_thinking: 1 },
  ]) {
    t.throws(() => templateVariables(kwargs as object as Record<string, unknown>, true), {
      code: 'INVALID_REQUEST',
      param: 'chat_template_kwargs',
    })
  }
})

t.test('the choice filters the tools', async (t) => {
  const [f, g] = ['f', 'g'].map((name): Tool => ({ type: 'function', function: { name, parameters: {} } })) as [
    Tool,
    Tool,
  ]
  const named = (name: string): ToolChoice => ({ type: 'function', function: { name } })
  t.same(templateTools([f, g], undefined), [f, g])
  t.same(templateTools([f, g], 'required'), [f, g])
  t.same(templateTools([f, g], 'none'), [])
  t.same(templateTools([f, g], named('g')), [g])
  t.same(templateTools(null, 'auto'), [])
  for (const choice of [named('h'), 'maybe', { type: 'function' }]) {
    t.throws(() => templateTools([f], choice as ToolChoice), { code: 'INVALID_REQUEST', param: 'tool_choice' })
  }
})
