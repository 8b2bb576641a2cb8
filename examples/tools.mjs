// A round of tools: the model asks for one, we run it, the model answers from the result.
import OpenAI from 'openai'

const openai = new OpenAI({
  baseURL: process.env.OPENAI_BASE_URL ?? 'http://localhost:8000/v1',
  apiKey: process.env.OPENAI_API_KEY ?? 'none',
})

/** Our side: what each tool does. */
const run = {
  get_weather: ({ city }) => ({ temperature: city.length * 5, sky: 'sunny' }),
}
const tools = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'Get the weather for a city',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
]

const messages = [{ role: 'user', content: 'What is the weather in Lagos?' }]
for (;;) {
  const { choices } = await openai.chat.completions.create({ model: 'maple-preview', messages, tools, temperature: 0 })
  const { message } = choices[0]
  messages.push(message)
  if (!message.tool_calls) {
    console.log(message.content)
    break
  }
  for (const { id, function: call } of message.tool_calls) {
    console.error(`${call.name}(${call.arguments})`)
    const result = run[call.name](JSON.parse(call.arguments))
    messages.push({ role: 'tool', tool_call_id: id, content: JSON.stringify(result) })
  }
}
