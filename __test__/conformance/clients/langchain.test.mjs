import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HumanMessage, ToolMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import { z } from 'zod'
import { apiKey, baseURL, cases, cutsOff } from './helpers.mjs'

const open = (more) =>
  new ChatOpenAI({
    ...{ model: cases.model, apiKey, configuration: { baseURL }, temperature: 0, maxRetries: 0 },
    ...more,
  })
/** It has no place for reasoning yet, but hands on what the server sent. */
const reasoningOf = ({ additional_kwargs: { __raw_response: raw } }) => {
  const choice = raw?.choices[0]
  return (choice?.message ?? choice?.delta)?.reasoning_content ?? ''
}

test('chat, reasoning, usage', async () => {
  const answer = await open({ __includeRawResponse: true }).invoke(cases.question)
  assert.equal(answer.content, cases.answer)
  assert.match(reasoningOf(answer), /Paris/)
  const { input_tokens: input, output_tokens: output, total_tokens: total } = answer.usage_metadata
  assert.equal(total, input + output)
  assert.ok(answer.usage_metadata.output_token_details.reasoning > 0)
})

test('stream', async () => {
  const pieces = []
  let reasoning = ''
  let usage
  for await (const chunk of await open({ __includeRawResponse: true }).stream(cases.question)) {
    reasoning += reasoningOf(chunk)
    if (chunk.content) pieces.push(chunk.content)
    usage = chunk.usage_metadata ?? usage
  }
  assert.equal(pieces.join(''), cases.answer)
  assert.ok(pieces.length > 1)
  assert.match(reasoning, /Paris/)
  assert.ok(usage.output_tokens > pieces.length)
})

test('a round of tools', async () => {
  const weather = tool(() => JSON.stringify(cases.result), {
    ...{ name: cases.tool.name, description: cases.tool.description, schema: z.object({ city: z.string() }) },
  })
  const model = open().bindTools([weather])
  const messages = [new HumanMessage(cases.weather)]
  const first = await model.invoke(messages)
  assert.deepEqual(
    first.tool_calls.map(({ name, args }) => ({ name, args })),
    [{ name: cases.tool.name, args: cases.arguments }],
  )
  const result = await weather.invoke(first.tool_calls[0])
  assert.ok(result instanceof ToolMessage)
  const { content } = await model.invoke([...messages, first, result])
  for (const word of cases.report) assert.ok(content.includes(word), content)
})

test('an error', async () => {
  await assert.rejects(open({ topP: 7 }).invoke(cases.question), { status: 400, message: /top_p/ })
})

test('abort', async () => {
  await cutsOff(async () => {
    const stop = new AbortController()
    setTimeout(() => stop.abort(), 100)
    await assert.rejects(open().invoke(cases.slow, { signal: stop.signal }))
  })
})
