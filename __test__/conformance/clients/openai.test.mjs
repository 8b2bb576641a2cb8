import assert from 'node:assert/strict'
import { test } from 'node:test'
import OpenAI from 'openai'
import { apiKey, baseURL, cases, cutsOff } from './helpers.mjs'

const openai = new OpenAI({ baseURL, apiKey, maxRetries: 0 })
const { model } = cases
const temperature = 0
const messages = [{ role: 'user', content: cases.question }]

test('chat, reasoning, usage', async () => {
  const { choices, usage } = await openai.chat.completions.create({ model, messages, temperature })
  assert.equal(choices[0].message.content, cases.answer)
  assert.match(choices[0].message.reasoning_content, /Paris/)
  assert.equal(choices[0].finish_reason, 'stop')
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
  assert.ok(usage.completion_tokens_details.reasoning_tokens > 0)
})

test('stream', async () => {
  const stream = await openai.chat.completions.create({
    ...{ model, messages, temperature, stream: true, stream_options: { include_usage: true } },
  })
  const pieces = []
  let reasoning = ''
  let usage
  for await (const chunk of stream) {
    const delta = chunk.choices[0]?.delta
    if (delta?.content) pieces.push(delta.content)
    reasoning += delta?.reasoning_content ?? ''
    usage = chunk.usage ?? usage
  }
  assert.equal(pieces.join(''), cases.answer)
  assert.ok(pieces.length > 1)
  assert.match(reasoning, /Paris/)
  assert.ok(usage.completion_tokens > pieces.length)
})

test('a round of tools, by the client’s own runner', async () => {
  const asked = []
  const runner = openai.chat.completions.runTools({
    model,
    temperature,
    messages: [{ role: 'user', content: cases.weather }],
    tools: [
      {
        type: 'function',
        function: {
          ...cases.tool,
          parse: JSON.parse,
          function: (args) => {
            asked.push(args)
            return JSON.stringify(cases.result)
          },
        },
      },
    ],
  })
  const answer = await runner.finalContent()
  assert.deepEqual(asked, [cases.arguments])
  for (const word of cases.report) assert.ok(answer.includes(word), answer)
})

test('errors', async () => {
  await assert.rejects(openai.chat.completions.create({ model, messages, n: 2 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError)
    assert.equal(error.param, 'n')
    return true
  })
  const stranger = new OpenAI({ baseURL, apiKey: 'wrong', maxRetries: 0 })
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError)
})

test('abort', async () => {
  const slow = { model, temperature, messages: [{ role: 'user', content: cases.slow }] }
  await cutsOff(async () => {
    const stream = await openai.chat.completions.create({ ...slow, stream: true })
    for await (const { choices } of stream) if (choices[0].delta.reasoning_content) break
  })
  await cutsOff(async () => {
    const stop = new AbortController()
    setTimeout(() => stop.abort(), 100)
    await assert.rejects(openai.chat.completions.create(slow, { signal: stop.signal }), OpenAI.APIUserAbortError)
  })
})
