// How long a person waits: from `npm start` on the small model to the first streamed token of an answer, on a built clone.
//
//   node bench/first-token.mjs [RUNS]
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const runs = Number(process.argv[2] ?? 5)

/** Seconds until the port answers, the model is loaded, and the first piece of reasoning arrives. */
async function measure() {
  const started = performance.now()
  const elapsed = () => (performance.now() - started) / 1000
  const child = spawn('npm', ['start', '--', '--port', '0', '--host', '127.0.0.1'], { cwd: root, detached: true })
  try {
    let log = ''
    const url = await new Promise((resolve, reject) => {
      child.stderr.on('data', (data) => {
        log += data
        const found = /http:\/\/127\.0\.0\.1:\d+/.exec(log)
        if (found !== null) resolve(found[0])
      })
      child.on('close', () => reject(new Error(log)))
    })
    const listening = elapsed()
    while ((await (await fetch(`${url}/health`)).json()).status !== 'ok')
      await new Promise((resolve) => setTimeout(resolve, 5))
    const loaded = elapsed()
    const messages = [{ role: 'user', content: 'What is 17 * 23?' }]
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ messages, stream: true }),
    })
    let text = ''
    for await (const chunk of response.body) {
      text += Buffer.from(chunk).toString()
      if (/"(reasoning_)?content":"[^"]/.test(text)) return { listening, loaded, first: elapsed() }
    }
    throw new Error(text)
  } finally {
    const ended = once(child, 'close')
    process.kill(-child.pid, 'SIGTERM')
    await ended
  }
}

const rows = []
for (let run = 0; run < runs; run += 1) rows.push(await measure())
console.table(
  rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [name, Number(value.toFixed(2))]))),
)
