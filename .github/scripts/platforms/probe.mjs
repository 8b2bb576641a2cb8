// Run by a platform's own Node in a folder laid out as an installed package: loads the addon and the small model, asks it the
// same thing in every way there is, and writes what it found and where as JSON.
//
//   node probe.mjs PACKAGE SCRATCH RESULT
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer as createHttp, request } from 'node:http'
import { arch, cpus, platform } from 'node:os'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const [packageFolder, scratch, resultFile] = process.argv.slice(2).map((path) => resolve(path))
const open = (name) => import(pathToFileURL(join(packageFolder, name)))
const messages = [{ role: 'user', content: 'Say hello in French.' }]
const product = [{ role: 'user', content: 'What is 17 * 23?' }]

/** A short answer, and the first tokens of a longer one, both greedy. */
async function ask(model) {
  let text = ''
  for await (const event of model.chat({ messages, temperature: 0, maxTokens: 24, enableThinking: false }))
    text += event.text ?? ''
  text += ' | '
  for await (const event of model.chat({ messages: product, temperature: 0, maxTokens: 40 })) text += event.text ?? ''
  return text
}

async function post(port, path, body) {
  const headers = { 'Content-Type': 'application/json' }
  const call = request({ host: '127.0.0.1', port, path, method: 'POST', headers, agent: false })
  call.end(JSON.stringify(body))
  const [response] = await once(call, 'response')
  let text = ''
  for await (const data of response.setEncoding('utf8')) text += data
  return text
}

/** The same question over HTTP, streamed. */
async function askServer(model, createServer) {
  const server = createServer(model, { logLevel: 'warning' }).listen(0, '127.0.0.1')
  await new Promise((ready) => server.once('listening', ready))
  const body = {
    messages,
    temperature: 0,
    max_tokens: 24,
    stream: true,
    chat_template_kwargs: { enable_thinking: false },
  }
  const text = await post(server.address().port, '/v1/chat/completions', body)
  const lines = text.split('\n').filter((line) => line.startsWith('data: {'))
  server.closeAllConnections()
  await new Promise((closed) => server.close(closed))
  return lines.map((line) => JSON.parse(line.slice(6)).choices[0]?.delta.content ?? '').join('')
}

/** A hub with one repo, so that the cache's folders, links and renames are those of this system. */
async function withHub(folder, use) {
  const commit = 'c'.repeat(40)
  const files = Object.fromEntries(
    readdirSync(folder)
      .filter((name) => /\.(json|jinja|safetensors)$/.test(name))
      .map((name) => [name, readFileSync(join(folder, name))]),
  )
  const server = createHttp((req, res) => {
    if (req.url.startsWith('/api/models/test/sprout/')) {
      const siblings = Object.keys(files).map((rfilename) => ({ rfilename }))
      return res.end(JSON.stringify({ sha: commit, siblings }))
    }
    const bytes = files[req.url.split('/').at(-1)]
    if (bytes === undefined) return res.writeHead(404).end()
    const etag = `"${createHash('sha256').update(bytes).digest('hex')}"`
    res.writeHead(200, { ETag: etag, 'Content-Length': bytes.length, 'X-Repo-Commit': commit })
    res.end(req.method === 'HEAD' ? undefined : bytes)
  }).listen(0, '127.0.0.1')
  await new Promise((ready) => server.once('listening', ready))
  try {
    return await use(`http://127.0.0.1:${server.address().port}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

async function probe() {
  const native = await open('index.js')
  const { Maple, createServer } = await open('dist/index.js')
  const { isa, isas, threads } = native.cpuInfo()
  const where = { platform: platform(), arch: arch(), node: process.version, cpu: cpus()[0]?.model, isa, isas, threads }
  mkdirSync(scratch, { recursive: true })
  const env = {
    MAPLE_CACHE: join(scratch, 'packed'),
    HF_HOME: join(scratch, 'hub'),
    HOME: scratch,
    USERPROFILE: scratch,
  }
  const answers = {}
  const formats = {}
  const load = async (name, spec, options = {}) => {
    const model = await Maple.load(spec, { env: { ...env, ...options } })
    answers[name] = await ask(model)
    formats[name] = model.info.format
    return model
  }
  const first = await load('packs its weights', 'sprout')
  answers['over HTTP'] = await askServer(first, createServer)
  await first.dispose()
  await (await load('maps the packed file', 'sprout')).dispose()
  await withHub(join(packageFolder, 'models/sprout'), async (endpoint) => {
    await (await load('fetched from a hub', 'test/sprout', { HF_ENDPOINT: endpoint })).dispose()
  })
  await (await load('from the cache, offline', 'test/sprout', { HF_HUB_OFFLINE: '1' })).dispose()
  return { where, answers, formats, packed: readdirSync(env.MAPLE_CACHE) }
}

const result = await probe().catch((error) => ({
  error: `${error.stack ?? String(error)}${error.cause ? `\ncaused by ${String(error.cause)}` : ''}`,
}))
writeFileSync(resultFile, `${JSON.stringify(result, null, 2)}\n`)
// A model that was not disposed must not keep the process.
process.exit(result.error === undefined ? 0 : 1)
