import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { fixture } from '../helpers/fixtures.js'

/** What every script starts with: the raw addon, a folder, a long prompt, and an endless answer. */
const PROLOGUE = `
  import * as native from ${JSON.stringify(new URL('../../index.js', import.meta.url).href)}
  import { Worker } from 'node:worker_threads'
  const folder = ${JSON.stringify(fixture('tiny-hf-sharded'))}
  const long = new Uint32Array(4000).fill(7)
  const short = Uint32Array.of(5, 6, 7)
  const endless = { ignoreEos: true, temperature: 1 }
  const load = () => native.loadModel(folder)
`

interface Outcome {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a script in a Node of its own: whether that ends by itself, and how, is what these tests are about. */
function run(script: string, ...flags: string[]): Promise<Outcome> {
  const args = [...flags, '--input-type=module', '--eval', PROLOGUE + script]
  const cwd = fileURLToPath(new URL('../..', import.meta.url))
  return new Promise((resolve) => {
    const child = execFile(process.execPath, args, { cwd }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : child.exitCode, signal: child.signalCode, stdout, stderr })
    })
  })
}

async function check(t: Test, script: string, expected: string, ...flags: string[]): Promise<void> {
  const outcome = await run(script, ...flags)
  t.same({ ...outcome, stdout: outcome.stdout.trim() }, { code: 0, signal: null, stdout: expected, stderr: '' })
}

t.test('Node ends by itself with a model loaded and an answer left unread', async (t) => {
  const script = `
    const model = await load()
    const generation = model.generate(short, endless)
    const { tokens } = await generation.next()
    console.log(tokens.length > 0)
  `
  await check(t, script, 'true')
})

t.test('leaving in the middle of a load, of a prompt and of an answer', async (t) => {
  const script = (moment: string) => `
    ${moment}
    setTimeout(() => process.exit(), 5)
  `
  await check(t, script('load()'), '')
  await check(t, script('const m = await load(); m.generate(long, endless).next()'), '')
  await check(t, script('const m = await load(); m.logits(long, [3])'), '')
  await check(
    t,
    script(
      'const m = await load(); const g = m.generate(short, endless); for (;;) { const c = await g.next(); if (c.tokens.length > 0) break }',
    ),
    '',
  )
})

t.test('a worker thread that is ended in the middle of things, again and again', async (t) => {
  const script = `
    const moments = {
      load: 'load()',
      prompt: 'const m = await load(); for (;;) await m.generate(long, endless).next()',
      answer: 'const m = await load(); const g = m.generate(short, endless); for (;;) await g.next()',
      logits: 'const m = await load(); for (;;) await m.logits(long, [3])',
      dispose: 'const m = await load(); m.generate(long, endless).next().catch(() => {}); m.dispose()',
    }
    const prologue = ${JSON.stringify(PROLOGUE)}
    for (const [name, code] of Object.entries(moments)) {
      for (const wait of [0, 20, 120]) {
        const source = prologue + 'const { parentPort } = await import("node:worker_threads"); parentPort.postMessage("up");' + code
        const worker = new Worker(new URL('data:text/javascript,' + encodeURIComponent(source)))
        worker.on('error', (error) => console.log(name, error.message))
        await new Promise((resolve) => worker.once('message', resolve))
        await new Promise((resolve) => setTimeout(resolve, wait))
        await worker.terminate()
      }
    }
    const model = await load()
    const chunk = await model.generate(short, { ...endless, maxTokens: 1 }).next()
    console.log(chunk.tokens.length)
  `
  await check(t, script, '1')
})

t.test('a progress callback that throws harms nobody', async (t) => {
  const script = `
    let calls = 0
    const model = await native.loadModel(folder, {}, () => { calls++; throw new Error('from the callback') })
    // Calls come by way of the event loop and may still be on theirs.
    while (calls === 0) await new Promise((resolve) => setImmediate(resolve))
    console.log(model.info.vocabSize)
  `
  await check(t, script, '288')
})

t.test('the garbage collector may take models and answers in any order', async (t) => {
  const script = `
    const settle = () => new Promise((resolve) => setTimeout(resolve, 10))
    for (let round = 0; round < 6; round++) {
      let generation = (await load()).generate(short, { ...endless, maxTokens: 50 })
      let unread = (await load()).generate(long, endless)
      const logits = (await load()).logits(long, [0])
      unread = undefined
      gc()
      await settle()
      gc()
      let tokens = 0
      for (;;) {
        const chunk = await generation.next()
        tokens += chunk.tokens.length
        if (chunk.finishReason) break
      }
      const rows = await logits
      console.log(tokens, rows.length)
      generation = undefined
      gc()
    }
  `
  await check(t, script, new Array(6).fill('50 288').join('\n'), '--expose-gc')
})

t.test('disposing: during a prompt, by several callers, again, and beside another model', async (t) => {
  const script = `
    const [model, other] = await Promise.all([load(), load()])
    const told = []
    const tell = (error) => told.push(error.message.split(':')[0])
    const answer = async () => { const generation = model.generate(long, endless); for (;;) await generation.next() }
    const rows = async () => { for (;;) await model.logits(long, [1]) }
    const work = [answer(), answer(), rows()].map((work) => work.catch(tell))
    await Promise.all([model.dispose(), model.dispose(), ...work])
    await model.dispose()
    try { model.generate(short) } catch (error) { tell(error) }
    console.log(told.join(' '))
    const chunk = await other.generate(short, { ...endless, maxTokens: 1 }).next()
    console.log(chunk.tokens.length, model.info.vocabSize)
  `
  await check(t, script, 'DISPOSED DISPOSED DISPOSED DISPOSED\n1 288')
})

t.test('a load, a prompt, logits and the end of a model leave the thread to others', async (t) => {
  const script = `
    const turns = async (work) => {
      let count = 0
      let over = false
      const done = work().finally(() => (over = true))
      for (;;) {
        await new Promise(setImmediate)
        if (over) break
        count++
      }
      return { count, result: await done }
    }
    const loading = await turns(load)
    const model = loading.result
    const prompt = await turns(() => model.generate(long, endless).next())
    const logits = await turns(() => model.logits(long, [3]))
    model.generate(long, endless).next().catch(() => {})
    const end = await turns(() => model.dispose())
    console.log([loading, prompt, logits, end].map(({ count }) => count > 0).join())
  `
  await check(t, script, 'true,true,true,true')
})

t.test('a model keeps no core busy while nobody asks it anything', async (t) => {
  const script = `
    const model = await load()
    await model.generate(short, { maxTokens: 5 }).next()
    await new Promise((resolve) => setTimeout(resolve, 50))
    const before = process.cpuUsage()
    await new Promise((resolve) => setTimeout(resolve, 1000))
    const { user, system } = process.cpuUsage(before)
    console.log(user + system < 200_000 ? 'idle' : 'busy for ' + (user + system) + ' microseconds')
  `
  await check(t, script, 'idle')
})
