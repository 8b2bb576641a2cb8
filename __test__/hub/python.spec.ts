import { execFile, execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { resolveModel } from '../../src/hub/index.js'
import { FakeHub, shardedRepo } from './fake-hub.js'

/** The cache is shared with the official client: looked at from both sides, where a Python has it. */
const python = process.env['MAPLE_TEST_PYTHON'] ?? 'python3'
const version = ((): string | undefined => {
  try {
    return execFileSync(python, ['-c', 'import huggingface_hub; print(huggingface_hub.__version__)'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    return undefined
  }
})()
if (version === undefined)
  t.comment(`SKIPPED: ${python} has no huggingface_hub (name one that has in MAPLE_TEST_PYTHON)`)
else t.comment(`huggingface_hub ${version}`)

t.setTimeout(120_000)

async function setUp(t: Test) {
  const hub = await FakeHub.start()
  t.teardown(() => hub.stop())
  const { commit } = hub.addRepo('org/maple', { files: shardedRepo() })
  const home = t.testdir({})
  const env = { HOME: home, HF_ENDPOINT: hub.endpoint, HF_HOME: home, HF_HUB_DISABLE_TELEMETRY: '1' }
  const run = async (code: string, more: Record<string, string> = {}): Promise<string> => {
    const program = `from huggingface_hub import *\n${code}`
    const { stdout } = await promisify(execFile)(python, ['-c', program], {
      env: { PATH: process.env['PATH'], ...env, ...more },
    })
    return stdout.trim()
  }
  return { hub, home, env, run, commit }
}

t.test('Python uses what this package fetched', { skip: version === undefined }, async (t) => {
  const { hub, home, env, run } = await setUp(t)
  const { path } = await resolveModel('org/maple', { env })
  const fetched = hub.count({ method: 'GET', file: 'config.json' }) + hub.count({ server: 'content' })
  t.equal(await run('print(snapshot_download("org/maple"))', { HF_HUB_OFFLINE: '1' }), path)
  t.equal(
    await run('print(hf_hub_download("org/maple", "tokenizer.json"))', { HF_HUB_OFFLINE: '1' }),
    join(path, 'tokenizer.json'),
  )
  t.equal(
    await run('print(snapshot_download("org/maple", allow_patterns=["config.json", "model-0*", "tokenizer*"]))'),
    path,
  )
  t.equal(
    hub.count({ method: 'GET', file: 'config.json' }) + hub.count({ server: 'content' }),
    fetched,
    'nothing was fetched again',
  )
  const scan = await run(
    `i = scan_cache_dir(${JSON.stringify(join(home, 'hub'))})\nprint(len(i.repos), [r.nb_files for r in i.repos], list(i.warnings))`,
  )
  t.equal(scan, '1 [8] []', 'its scan of the cache finds one sound repo (two files are alike)')
})

t.test('this package uses what Python fetched', { skip: version === undefined }, async (t) => {
  const { hub, env, run, commit } = await setUp(t)
  const path = await run('print(snapshot_download("org/maple"))')
  const fetched = hub.count({ server: 'content' })
  t.match(await resolveModel('org/maple', { env: { ...env, HF_HUB_OFFLINE: '1' } }), { path, commit })
  t.match(await resolveModel('org/maple', { env }), { path, commit })
  t.equal(hub.count({ server: 'content' }), fetched, 'nothing was fetched again')
})

t.test('both at once', { skip: version === undefined }, async (t) => {
  const { hub, env, run } = await setUp(t)
  hub.misbehave = (request) => (request.server === 'content' ? { slowMs: 10 } : undefined)
  const [ours, theirs] = await Promise.all([
    resolveModel('org/maple', { env }),
    run('print(snapshot_download("org/maple"))'),
  ])
  t.equal(ours.path, theirs)
  t.match(await resolveModel('org/maple', { env: { ...env, HF_HUB_OFFLINE: '1' } }), { path: theirs })
})
