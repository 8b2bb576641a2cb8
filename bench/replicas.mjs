// Three replicas of the small model behind HAProxy with the configuration of deploy/, all on the loopback address, under a
// bounded load of streams: one replica is killed, one drained by SIGTERM, one added. Prints a Markdown table; ends with an
// error if any stream was lost but the killed replica's own, or if that lost none.
//
//   node bench/replicas.mjs [--conversations 60] [--turns 12] [--clients 6] [--threads 1]
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createConnection, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { TextDecoder, parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    conversations: { type: 'string', default: '60' },
    turns: { type: 'string', default: '12' },
    clients: { type: 'string', default: '6' },
    threads: { type: 'string', default: '1' },
  },
})
const [conversationCount, turns, clients] = [values.conversations, values.turns, values.clients].map(Number)
const root = fileURLToPath(new URL('..', import.meta.url))
const work = mkdtempSync(join(tmpdir(), 'maple-replicas-'))
const children = new Set()
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL')
  rmSync(work, { recursive: true, force: true })
})
process.on('SIGTERM', () => process.exit(1))
// Whatever happens, it ends.
setTimeout(() => {
  console.error('gave up after 10 minutes')
  process.exit(1)
}, 600_000).unref()

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

function start(command, args, env) {
  const child = spawn(command, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let errors = ''
  child.stderr.on('data', (data) => (errors = (errors + data).slice(-4000)))
  child.errors = () => errors
  children.add(child)
  child.ended = once(child, 'exit').then(([code, signal]) => {
    children.delete(child)
    return code ?? signal
  })
  return child
}

async function until(condition, what) {
  for (let i = 0; i < 1200; i++) {
    if (await condition()) return
    await delay(50)
  }
  throw new Error(`waited a minute for ${what}`)
}

/** A server process of its own, with the model loaded. */
async function startReplica(name) {
  const port = await freePort()
  const args = ['dist/cli/main.js', 'serve', '--model-path', 'sprout', '--host', '127.0.0.1', '--port', String(port)]
  const child = start(process.execPath, [...args, '--threads', values.threads, '--log-level', 'warning'], {
    MAPLE_CACHE: join(work, 'packed'),
  })
  const url = `http://127.0.0.1:${port}`
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`${name} ended: ${child.errors()}`)
    const health = await fetch(`${url}/health`).catch(() => undefined)
    return (await health?.json())?.status === 'ok'
  }, `${name} to load`)
  return { name, child, port, url }
}

/** One answer, read to its end. Never throws: what went wrong is part of the result. */
async function ask(url, body, onEvent = () => {}) {
  const result = { replica: undefined, text: '', complete: false, problem: undefined, usage: undefined }
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    })
    result.replica = response.headers.get('x-replica') ?? undefined
    if (!response.ok)
      throw new Error(`HTTP ${response.status}: ${(await response.text()).replace(/\s+/g, ' ').slice(0, 200)}`)
    let rest = ''
    const decoder = new TextDecoder()
    for await (const bytes of response.body) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
      rest = lines.pop()
      for (const line of lines) {
        if (line === 'data: [DONE]') result.complete = result.usage !== undefined && result.problem === undefined
        else if (line.startsWith('data: ')) {
          const event = JSON.parse(line.slice(6))
          if (event.error) result.problem = event.error.message
          if (event.usage) result.usage = event.usage
          result.text += event.choices?.[0]?.delta?.content ?? ''
        }
      }
      onEvent(result)
    }
    if (!result.complete) result.problem ??= 'cut off'
  } catch (error) {
    result.problem = error.cause?.message ?? error.message
  }
  return result
}

const product = (i) => `What is ${11 + ((i * 7) % 80)} * ${12 + ((i * 13) % 80)}?`

/** Tokens a second of `count` separate questions by so many clients at once. */
async function throughput(url, parallel, count) {
  let next = 0
  let tokens = 0
  const begin = performance.now()
  const client = async () => {
    while (next < count) {
      const content = product(next++)
      const result = await ask(url, { messages: [{ role: 'user', content }], user: content, temperature: 0 })
      if (!result.complete) throw new Error(`throughput: ${result.problem}`)
      tokens += result.usage.completion_tokens
    }
  }
  await Promise.all(Array.from({ length: parallel }, client))
  return (tokens * 1000) / (performance.now() - begin)
}

/** Speaks to HAProxy's socket. */
async function command(text) {
  const socket = createConnection(join(work, 'haproxy.sock'))
  socket.end(`${text}\n`)
  let answer = ''
  for await (const data of socket) answer += data
  return answer.trim()
}

const replicas = []
for (const i of [1, 2, 3]) replicas.push(await startReplica(`replica${i}`))
const port = await freePort()
const balancer = start('haproxy', ['-db', '-f', 'deploy/haproxy.cfg'], {
  MAPLE_LISTEN: `127.0.0.1:${port}`,
  MAPLE_SOCKET: join(work, 'haproxy.sock'),
  ...Object.fromEntries(replicas.map((replica, i) => [`MAPLE_REPLICA_${i + 1}`, `127.0.0.1:${replica.port}`])),
})
const url = `http://127.0.0.1:${port}`
await until(async () => {
  if (balancer.exitCode !== null) throw new Error(`haproxy ended: ${balancer.errors()}`)
  return (await fetch(`${url}/health`).catch(() => undefined))?.ok
}, 'haproxy')

const alone = await throughput(replicas[0].url, clients, 90)
const together = await throughput(url, clients, 90)

// Conversations, by the three things that HAProxy knows them by.
const kinds = ['prompt_cache_key', 'user', 'first message']
const conversations = Array.from({ length: conversationCount }, (_, i) => ({
  kind: kinds[i % kinds.length],
  key: i % 3 === 0 ? { prompt_cache_key: `conversation-${i}` } : i % 3 === 1 ? { user: `user-${i}` } : {},
  messages: [],
  turn: 0,
  served: [],
  seed: i,
}))
const results = []
const gone = new Set()
const total = conversationCount * turns

/** What happens while the load goes on, at which part of it. */
const events = [
  {
    at: 0.25,
    when: () => true,
    run: async () => {
      const { child } = replicas[0]
      // Let run in short steps until all that it has sent has come and there is an answer that has more to say.
      const midway = ({ replica, complete }) => replica === 'replica1' && !complete
      for (; events.length > 0; await delay(1)) {
        child.kill('SIGSTOP')
        await delay(30)
        if ([...answering].some(midway)) break
        child.kill('SIGCONT')
      }
      gone.add('replica1')
      child.kill('SIGKILL')
      await child.ended
    },
  },
  {
    at: 0.5,
    when: (replica, chunks) => replica === replicas[1] && chunks === 1,
    run: async () => {
      gone.add('replica2')
      replicas[1].child.kill('SIGTERM')
      drainCode = await replicas[1].child.ended
    },
  },
  {
    at: 0.65,
    when: () => true,
    run: async () => {
      const added = await startReplica('replica4')
      replicas.push(added)
      const options = 'check inter 1s fall 2 rise 1 observe layer4 error-limit 1 on-error mark-down maxconn 17'
      for (const line of [
        `add server replicas/replica4 127.0.0.1:${added.port} ${options}`,
        'enable health replicas/replica4',
        'enable server replicas/replica4',
      ]) {
        const answer = await command(line)
        if (!/^(New server registered\.)?$/.test(answer)) throw new Error(`haproxy: ${line}: ${answer}`)
      }
    },
  },
]
const answering = new Set()
const byName = (name) => replicas.find((replica) => replica.name === name)
let drainCode
const happening = []

async function turn(conversation) {
  const content = product(conversation.seed * 31 + conversation.turn)
  const messages = [...conversation.messages, { role: 'user', content }]
  // A constant first message would make one conversation of all.
  if (conversation.turn === 0 && conversation.kind === 'first message') messages[0].content += ` (${conversation.seed})`
  let chunks = 0
  const result = await ask(url, { ...conversation.key, messages, temperature: 0, max_tokens: 200 }, (so) => {
    chunks++
    answering.add(so)
    const event = events[0]
    if (event !== undefined && results.length >= event.at * total && event.when(byName(so.replica), chunks)) {
      events.shift()
      happening.push(event.run())
    }
  })
  answering.delete(result)
  const before = conversation.served.at(-1)
  results.push({ ...result, kind: conversation.kind, before, wasGone: gone.has(before) })
  conversation.served.push(result.replica)
  conversation.turn++
  // What was lost is asked again by a client as if it had never been.
  if (result.complete) conversation.messages = [...messages, { role: 'assistant', content: result.text }]
}

const idle = [...conversations]
const begin = performance.now()
await Promise.all(
  Array.from({ length: clients }, async () => {
    for (let conversation; (conversation = idle.shift()) !== undefined;) {
      await turn(conversation)
      if (conversation.turn < turns) idle.push(conversation)
    }
  }),
)
const seconds = (performance.now() - begin) / 1000
await Promise.all(happening)
if (events.length > 0) throw new Error('the load was over before everything had happened; ask for more turns')

const lost = results.filter(({ complete }) => !complete)
const own = lost.filter(({ replica }) => replica === 'replica1')
const follow = results.filter(({ before, replica }) => before !== undefined && replica !== undefined)
const stayed = (list) => {
  const same = list.filter(({ before, replica }) => before === replica).length
  return list.length === 0 ? 'none' : `${((100 * same) / list.length).toFixed(1)} % of ${list.length}`
}
const settled = follow.filter(({ wasGone, replica }) => !wasGone && replica !== 'replica4')
const sum = (pick) => results.reduce((all, { usage }) => all + (usage ? pick(usage) : 0), 0)
const reused = sum((usage) => usage.prompt_tokens_details?.cached_tokens ?? 0) / sum((usage) => usage.prompt_tokens)
const count = (name) => results.filter(({ replica, complete }) => replica === name && complete).length
const rows = [
  ['Tokens a second, one replica', alone.toFixed(0)],
  ['Tokens a second, three replicas', `${together.toFixed(0)} (${(together / alone).toFixed(2)} times)`],
  ['Streams, at most at once', `${results.length}, ${clients} (in ${seconds.toFixed(1)} s)`],
  ['Complete', String(results.length - lost.length)],
  ['Lost with the killed replica', String(own.length)],
  ['Lost otherwise', String(lost.length - own.length)],
  ['Exit code of the drained replica', String(drainCode)],
  [
    'Answered by replica 1 (killed), 2 (drained), 3, 4 (added)',
    [1, 2, 3, 4].map((i) => count(`replica${i}`)).join(', '),
  ],
  ['Next turn on the same replica, where that one was still there', stayed(settled)],
  ...kinds.map((kind) => [`— known by ${kind}`, stayed(settled.filter((result) => result.kind === kind))]),
  ['Next turn on the same replica, all', stayed(follow)],
  ['Prompt tokens found in the KV cache', `${(100 * reused).toFixed(1)} %`],
]
console.log(['| | |', '|---|---|', ...rows.map((row) => `| ${row.join(' | ')} |`)].join('\n'))
for (const result of lost) console.error(`lost on ${result.replica ?? 'no replica'}: ${result.problem}`)

for (const { child } of replicas) child.kill('SIGTERM')
balancer.kill('SIGTERM')
await Promise.all([balancer.ended, ...replicas.map(({ child }) => child.ended)])
const version = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version
console.error(`maple-cpu ${version}, Node ${process.version}, ${values.threads} threads a replica`)
process.exit(own.length > 0 && lost.length === own.length && drainCode === 0 && count('replica4') > 0 ? 0 : 1)
