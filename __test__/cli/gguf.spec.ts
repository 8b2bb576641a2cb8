import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { fixture } from '../helpers/fixtures.js'
import { FakeHub } from '../hub/fake-hub.js'
import { start } from './program.js'

t.setTimeout(600_000)

const file = fixture('gguf/maple-tq2_0-head-q4_K.gguf')

/** What a model answers, greedily, with the packed cache of the test. */
async function answer(t: Test, model: string, env: Record<string, string> = {}): Promise<string> {
  const args = ['run', '--json', 'hi there', '--model-path', model, '--temperature', '0', '--max-new-tokens', '12']
  const program = start(args, { env: { MAPLE_CACHE: join(t.testdirName, 'packed'), ...env } })
  t.equal(await program.ended, 0, program.stderr)
  const {
    content,
    reasoning_content = '',
    usage,
  } = JSON.parse(program.stdout) as {
    content: string
    reasoning_content?: string
    usage: { completion_tokens: number }
  }
  t.ok(usage.completion_tokens > 0)
  return `${reasoning_content}|${content}`
}

t.test('a GGUF file answers, from itself, its packed copy, its folder, a packed folder and the hub', async (t) => {
  const home = t.testdir({ alone: {}, several: {} })
  const first = await answer(t, file)
  t.equal(await answer(t, file), first, 'from the packed copy')

  copyFileSync(file, join(home, 'alone', 'model.gguf'))
  writeFileSync(join(home, 'alone', 'README.md'), 'a model')
  t.equal(await answer(t, join(home, 'alone')), first, 'from the folder that holds it')

  const packed = join(home, 'made')
  const pack = start(['pack', file, packed])
  t.equal(await pack.ended, 0, pack.stderr)
  t.ok(existsSync(join(packed, 'tokenizer.json')))
  t.equal(await answer(t, packed), first, 'from a packed folder')

  const hub = await FakeHub.start()
  t.teardown(() => hub.stop())
  hub.addRepo('org/one', { files: { 'README.md': Buffer.from('x'), 'Maple.gguf': readFileSync(file) } })
  const env = { HF_ENDPOINT: hub.endpoint, HF_HOME: join(home, 'hf') }
  t.equal(await answer(t, 'org/one:Maple.gguf', env), first, 'from the hub by name')
  t.equal(await answer(t, 'org/one', { ...env, HF_HUB_OFFLINE: '1' }), first, 'as the only one of its repo, offline')
})

t.test('a folder with several GGUF models asks for one', async (t) => {
  const folder = t.testdir({ 'a.gguf': '', 'b.gguf': '' })
  const program = start(['info', folder])
  t.equal(await program.ended, 3)
  t.match(program.stderr, /several GGUF models.*a\.gguf, b\.gguf/)
})

t.test('info and doctor know GGUF files', async (t) => {
  const info = start(['info', file, '--json'])
  t.equal(await info.ended, 0, info.stderr)
  t.match(JSON.parse(info.stdout), {
    format: 'gguf',
    packed: false,
    layers: 4,
    experts: 8,
    vocabSize: 288,
    warnings: [],
  })
  const doctor = start(['doctor', '--json', '--model-path', file, '--port', '0'])
  await doctor.ended
  const { checks } = JSON.parse(doctor.stdout) as { checks: { name: string; verdict: string; found: string }[] }
  t.match(
    checks.find(({ name }) => name === 'Model'),
    { verdict: 'ok', found: /gguf/ },
  )
})

t.test('a broken tokenizer in the metadata ends pack before it begins', async (t) => {
  const home = t.testdir({})
  const bytes = readFileSync(file)
  const at = bytes.indexOf('qwen2')
  bytes.write('qwenX', at, 'latin1')
  writeFileSync(join(home, 'broken.gguf'), bytes)
  const pack = start(['pack', join(home, 'broken.gguf'), join(home, 'made')])
  t.equal(await pack.ended, 3)
  t.match(pack.stderr, /broken\.gguf: .*tokenizer\.ggml\.pre/)
  t.notOk(existsSync(join(home, 'made')))
})

t.test('a GGUF file is served', async (t) => {
  const program = start(['serve', '--model-path', file, '--port', '0', '--host', '127.0.0.1'], {
    env: { MAPLE_CACHE: t.testdir({}) },
  })
  while (!program.stderr.includes('the model is loaded') && program.child.exitCode === null) await delay(5)
  const url = /"url":"([^"]+)"/.exec(program.stderr)?.[1] ?? ''
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hi' }], max_tokens: 3, temperature: 0 })
  const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body })
  t.match(await response.json(), { object: 'chat.completion', usage: { completion_tokens: 3 } })
  program.child.kill('SIGTERM')
  t.equal(await program.ended, 0)
})
