// The Vercel AI SDK: a streamed answer with reasoning, in which the SDK runs the tool by itself.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { stepCountIs, streamText, tool } from 'ai'
import { z } from 'zod'

const maple = createOpenAICompatible({
  name: 'maple',
  baseURL: process.env.OPENAI_BASE_URL ?? 'http://localhost:8000/v1',
  apiKey: process.env.OPENAI_API_KEY ?? 'none',
})

const { fullStream } = streamText({
  model: maple('maple-preview'),
  prompt: 'What is the weather in Lagos?',
  temperature: 0,
  stopWhen: stepCountIs(5),
  tools: {
    get_weather: tool({
      description: 'Get the weather for a city',
      inputSchema: z.object({ city: z.string() }),
      execute: ({ city }) => ({ temperature: city.length * 5, sky: 'sunny' }),
    }),
  },
})

for await (const part of fullStream) {
  if (part.type === 'reasoning-delta') process.stderr.write(part.text)
  else if (part.type === 'tool-call') console.error(`\n${part.toolName}(${JSON.stringify(part.input)})`)
  else if (part.type === 'text-delta') process.stdout.write(part.text)
  else if (part.type === 'error') throw part.error
}
console.log()
