import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { fixture } from '../helpers/fixtures.js'
import { FakeHub } from '../hub/fake-hub.js'
import { start } from './program.js'

t.setTimeout(120_000)

const tiny = fixture('tiny-hf-sharded')

t.test('info says what a checkpoint is, for people and for scripts', async (t) => {
  const program = start(['info', tiny])
  t.equal(await program.ended, 0, program.stderr)
  t.match(
    program.stdout,
    /Format +hf\n[^]*Ternary +[\d.]+ %[^]*Layers +4,[^]*Experts +8 a layer, 2 for each token[^]*Memory/,
  )
  const json = start(['info', tiny, '--json'])
  t.equal(await json.ended, 0)
  t.match(JSON.parse(json.stdout), {
    model: tiny,
    path: tiny,
    format: 'hf',
    packed: false,
    layers: 4,
    experts: 8,
    warnings: [],
  })
})

t.test('pack makes a folder that is a checkpoint itself', async (t) => {
  const folder = join(t.testdir({}), 'packed')
  const program = start(['pack', tiny, folder])
  t.equal(await program.ended, 0, program.stderr)
  t.equal(program.stdout, `${join(folder, 'model.safetensors')}\n`)
  t.ok(existsSync(join(folder, 'tokenizer.json')))
  const info = start(['info', folder, '--json'])
  t.equal(await info.ended, 0)
  t.match(JSON.parse(info.stdout), { packed: true, layers: 4 })
  const again = start(['pack', tiny, folder])
  t.equal(await again.ended, 2)
  t.match(again.stderr, /destination/)
  const alone = start(['pack', tiny])
  t.equal(await alone.ended, 2)
  t.equal(alone.stderr, 'maple-cpu: Not enough arguments: got 1, need at least 2. See maple-cpu pack --help.\n')
})

t.test('what is wrong with a model has its own exit code', async (t) => {
  const missing = start(['info', './nowhere'])
  t.equal(await missing.ended, 3)
  t.match(missing.stderr, /no file or folder.*MODEL_NOT_FOUND/)
  const absent = start(['info', 'org/model'], { env: { HF_HOME: t.testdir({}) } })
  t.equal(await absent.ended, 3)
  t.match(absent.stderr, /Only this disk is looked at.*hf download org\/model/)
  const broken = start(['info', t.testdir({ 'config.json': '{' })])
  t.equal(await broken.ended, 3)
})

t.test('pack fetches a model by name, with plain progress in a pipe', async (t) => {
  const hub = await FakeHub.start()
  t.teardown(() => hub.stop())
  hub.addRepo('org/tiny', {
    files: Object.fromEntries(readdirSync(tiny).map((name) => [name, readFileSync(join(tiny, name))])),
  })
  const home = t.testdir({})
  const env = { HF_ENDPOINT: hub.endpoint, HF_HOME: home }
  const program = start(['pack', 'org/tiny', join(home, 'packed')], { env })
  t.equal(await program.ended, 0, program.stderr)
  t.match(JSON.parse(await output(start(['info', 'org/tiny', '--json'], { env }))), { format: 'hf', layers: 4 })
})

t.test('doctor gives every finding a verdict, and every bad one a remedy', async (t) => {
  const home = t.testdir({ file: '' })
  const other = createServer((_, response) => response.end('no')).listen(0, '127.0.0.1')
  await new Promise((resolve) => other.once('listening', resolve))
  t.teardown(() => void other.close())
  const { port } = other.address() as AddressInfo
  const base = ['doctor', '--host', '127.0.0.1', '--port']
  const fine = start([...base, '0', '--model-path', tiny, '--json'], { env: { HOME: home } })
  t.equal(await fine.ended, 0, fine.stderr)
  interface Check {
    name: string
    verdict: string
    found: string
    remedy?: string
  }
  const { checks } = JSON.parse(fine.stdout) as { checks: Check[] }
  t.strictSame(
    checks.map(({ name }) => name),
    ['Versions', 'CPU', 'Kernels', 'Threads', 'Model', 'Memory', 'Downloads', 'Packed cache', 'Port'],
  )
  for (const { verdict, remedy, name } of checks) t.ok(verdict === 'ok' || remedy !== undefined, name)

  const token = 'hf_secret'
  const env = { HF_HUB_CACHE: join(home, 'file', 'x'), HF_TOKEN: token, HF_HUB_OFFLINE: '1' }
  const poor = start([...base, String(port), '--model-path', 'org/none', '--threads', '1000'], { env })
  t.equal(await poor.ended, 1)
  t.match(poor.stdout, /note +Model: org\/none is not on this disk yet\n +-> HF_HUB_OFFLINE is set/)
  t.match(poor.stdout, /note +Threads: 1000/)
  t.match(poor.stdout, /bad +Downloads: .*not writable\n +-> Set HF_HUB_CACHE/)
  t.match(poor.stdout, new RegExp(`note +Port: 127\\.0\\.0\\.1:${port} is taken by another program`))
  t.notMatch(poor.stdout + poor.stderr, token)
})

async function output(program: ReturnType<typeof start>): Promise<string> {
  await program.ended
  return program.stdout
}
