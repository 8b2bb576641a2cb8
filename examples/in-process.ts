// The model inside this program, without a server.
import { Maple } from 'maple-cpu'

const model = await Maple.load('sprout')
const messages = [{ role: 'user', content: 'What is 17 * 23?' }]

for await (const event of model.chat({ messages, temperature: 0 })) {
  if (event.type === 'content') process.stdout.write(event.text)
}

await model.dispose()
