// LangChain: a prompt template, the model and a parser in a chain, streamed.
import { StringOutputParser } from '@langchain/core/output_parsers'
import { ChatPromptTemplate } from '@langchain/core/prompts'
import { ChatOpenAI } from '@langchain/openai'

const model = new ChatOpenAI({
  model: 'maple-preview',
  temperature: 0,
  apiKey: process.env.OPENAI_API_KEY ?? 'none',
  configuration: { baseURL: process.env.OPENAI_BASE_URL ?? 'http://localhost:8000/v1' },
})

const chain = ChatPromptTemplate.fromTemplate('What is the capital of {country}?')
  .pipe(model)
  .pipe(new StringOutputParser())

for (const country of ['France', 'Japan']) {
  for await (const piece of await chain.stream({ country })) process.stdout.write(piece)
  console.log()
}
