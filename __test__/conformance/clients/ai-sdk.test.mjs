import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { APICallError, generateText, stepCountIs, streamText, tool } from 'ai'
import { z } from 'zod'
import { apiKey, baseURL, cases, cutsOff } from './helpers.mjs'

const maple = createOpenAICompatible({ name: 'maple', baseURL, apiKey, includeUsage: true })
const model = maple(cases.model)
const common = { model, temperature: 0, maxRetries: 0 }

test('chat, reasoning, usage', async () => {
  const { text, reasoningText, usage, finishReason } = await generateText({ ...common, prompt: cases.question })
  assert.equal(text, cases.answer)
  assert.match(reasoningText, /Paris/)
  assert.equal(finishReason, 'stop')
  assert.ok(usage.inputTokens > 0)
  assert.equal(usage.totalTokens, usage.inputTokens + usage.outputTokens)
  assert.ok(usage.outputTokenDetails.reasoningTokens > 0)
})

test('stream', async () => {
  const result = streamText({ ...common, prompt: cases.question })
  const pieces = []
  for await (const piece of result.textStream) pieces.push(piece)
  assert.equal(pieces.join(''), cases.answer)
  assert.ok(pieces.length > 1)
  assert.match(await result.reasoningText, /Paris/)
  assert.ok((await result.usage).outputTokens > pieces.length)
})

test('a round of tools', async () => {
  const asked = []
  const tools = {
    [cases.tool.name]: tool({
      description: cases.tool.description,
      inputSchema: z.object({ city: z.string() }),
      execute: (input) => {
        asked.push(input)
        return cases.result
      },
    }),
  }
  for (const run of [generateText, streamText]) {
    const result = run({ ...common, prompt: cases.weather, tools, stopWhen: stepCountIs(3) })
    const text = await (await result).text
    assert.deepEqual(asked.splice(0), [cases.arguments])
    for (const word of cases.report) assert.ok(text.includes(word), text)
  }
})

test('an error', async () => {
  await assert.rejects(generateText({ ...common, topP: 7, prompt: cases.question }), (error) => {
    assert.ok(APICallError.isInstance(error))
    assert.equal(error.statusCode, 400)
    assert.match(error.message, /top_p/)
    return true
  })
})

test('abort', async () => {
  await cutsOff(async () => {
    const stop = new AbortController()
    const { fullStream } = streamText({
      ...{ ...common, prompt: cases.slow, abortSignal: stop.signal, onError: () => {} },
    })
    for await (const { type } of fullStream) if (type === 'reasoning-delta') stop.abort()
  })
})
