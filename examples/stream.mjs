// Streams an answer: first the reasoning, dimmed, then the answer itself.
import OpenAI from 'openai'

const openai = new OpenAI({
  baseURL: process.env.OPENAI_BASE_URL ?? 'http://localhost:8000/v1',
  apiKey: process.env.OPENAI_API_KEY ?? 'none',
})

const stream = await openai.chat.completions.create({
  model: 'maple-preview',
  messages: [{ role: 'user', content: 'What is 17 * 23?' }],
  temperature: 0,
  stream: true,
  stream_options: { include_usage: true },
})

for await (const { choices, usage } of stream) {
  const { reasoning_content: reasoning, content } = choices[0]?.delta ?? {}
  if (reasoning) process.stderr.write(`\x1b[2m${reasoning}\x1b[22m`)
  if (content) process.stdout.write(content)
  if (usage) console.error(`\n${usage.completion_tokens} tokens`)
}
