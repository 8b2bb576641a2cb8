import { lstatSync, mkdirSync, readFileSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { resolveModel } from '../../src/hub/index.js'
import type { ResolveOptions } from '../../src/hub/index.js'
import { FakeHub, gitHash, sha256, shardedRepo } from './fake-hub.js'

// Waits are the machine's: how busy it is must not decide.
t.setTimeout(180_000)

const needed = [
  'chat_template.jinja',
  'config.json',
  'generation_config.json',
  'model-00001-of-00003.safetensors',
  'model-00002-of-00003.safetensors',
  'model-00003-of-00003.safetensors',
  'model.safetensors.index.json',
  'tokenizer.json',
  'tokenizer_config.json',
]

async function setUp(t: Test) {
  const hub = await FakeHub.start()
  t.teardown(() => hub.stop())
  const home = t.testdir({})
  const cache = join(home, 'hub')
  const options: ResolveOptions = {
    env: { HOME: home, HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: cache },
    retryPauseMs: 1,
  }
  return { hub, cache, options }
}

t.test('a cold start leaves the official layout, with the needed files and no others', async (t) => {
  const { hub, cache, options } = await setUp(t)
  const files = shardedRepo()
  const { commit } = hub.addRepo('org/maple', { files })
  const progress: number[] = []
  const found = await resolveModel('org/maple', {
    ...options,
    onProgress: ({ phase, loadedBytes, totalBytes }) => {
      t.equal(phase, 'download')
      progress.push(loadedBytes / totalBytes)
      throw new Error('a listener of no use')
    },
  })
  const repo = join(cache, 'models--org--maple')
  t.strictSame(found, {
    path: join(repo, 'snapshots', commit),
    repoId: 'org/maple',
    revision: 'main',
    commit,
    warnings: [],
  })
  t.strictSame(readdirSync(found.path).sort(), needed)
  t.equal(readFileSync(join(repo, 'refs', 'main'), 'utf8'), commit)
  for (const name of needed) {
    const content = files[name] as Buffer
    const blob = name.endsWith('.safetensors') || name === 'tokenizer.json' ? sha256(content) : gitHash(content)
    t.equal(readlinkSync(join(found.path, name)), join('..', '..', 'blobs', blob))
    t.ok(readFileSync(join(found.path, name)).equals(content), name)
  }
  // generation_config.json and tokenizer_config.json have the same content.
  t.equal(readdirSync(join(repo, 'blobs')).length, needed.length - 1, 'nothing else is left among the blobs')
  t.equal(progress.at(-1), 1)

  const before = hub.requests.length
  t.strictSame(await resolveModel('org/maple', options), found)
  t.equal(hub.requests.length, before + 1, 'the second start asks for the commit and nothing else')
  t.strictSame(await resolveModel(`org/maple@${commit}`, options), { ...found, revision: commit })
  t.equal(hub.requests.length, before + 1, 'a pinned commit asks for nothing')
})

t.test('branches, tags and pull requests get their ref; a moved branch fetches only what changed', async (t) => {
  const { hub, cache, options } = await setUp(t)
  const files = shardedRepo()
  const { commit } = hub.addRepo('org/maple', { files })
  await resolveModel('org/maple', options)
  const next = 'b'.repeat(40)
  hub.addRepo('org/maple', {
    files: { ...files, 'config.json': Buffer.from('{"new":true}') },
    commit: next,
    refs: { 'refs/pr/1': next, 'v1.0': next },
  })
  hub.requests.length = 0
  const found = await resolveModel('org/maple', options)
  t.equal(found.commit, next)
  t.equal(hub.count({ method: 'GET', file: 'config.json' }), 1)
  t.equal(hub.count({ server: 'content' }), 0)
  t.match(readFileSync(join(found.path, 'config.json'), 'utf8'), 'new')
  for (const revision of ['refs/pr/1', 'v1.0']) {
    t.equal((await resolveModel(`org/maple@${revision}`, options)).path, found.path)
    t.equal(readFileSync(join(cache, 'models--org--maple', 'refs', revision), 'utf8'), next)
  }
  t.ok(hub.requests.some((request) => request.url.endsWith('/revision/refs%2Fpr%2F1')))
  t.equal((await resolveModel(`org/maple@${commit}`, options)).commit, commit, 'the old commit is still there')
  await t.rejects(resolveModel('org/maple@nope', options), { code: 'HUB_NOT_FOUND', message: /no revision "nope"/ })
})

t.test('a renamed repo keeps the folder of the name that was asked for', async (t) => {
  const { hub, cache, options } = await setUp(t)
  hub.addRepo('org/new', { files: shardedRepo() })
  hub.rename('org/old', 'org/new')
  const found = await resolveModel('org/old', options)
  t.ok(found.path.startsWith(join(cache, 'models--org--old')))
})

t.test('GGUF files: by name, the only one, split, and not guessed among several', async (t) => {
  const { hub, options } = await setUp(t)
  const gguf = Buffer.from('GGUF one')
  hub.addRepo('org/one', { files: { 'README.md': gguf, 'maple-Q4.gguf': gguf } })
  hub.addRepo('org/two', {
    files: {
      'config.json': gguf,
      'a.gguf': gguf,
      'sub/b-00001-of-00002.gguf': Buffer.from('b1'),
      'sub/b-00002-of-00002.gguf': Buffer.from('b2'),
    },
  })
  t.ok((await resolveModel('org/one', options)).path.endsWith('maple-Q4.gguf'))
  t.ok((await resolveModel('org/two:a.gguf', options)).path.endsWith('a.gguf'))
  await t.rejects(resolveModel('org/two', options), {
    code: 'MODEL_NOT_FOUND',
    message: /org\/two:a\.gguf, org\/two:sub\/b-00001-of-00002\.gguf/,
  })
  const split = await resolveModel('org/two@main:sub/b-00001-of-00002.gguf', options)
  t.match(split.path, /b-00001-of-00002\.gguf$/)
  t.strictSame(readdirSync(join(split.path, '..')).sort(), ['b-00001-of-00002.gguf', 'b-00002-of-00002.gguf'])
  await t.rejects(resolveModel('org/two:c.gguf', options), { code: 'MODEL_NOT_FOUND', message: /a\.gguf/ })
  t.equal(hub.count({ file: 'config.json' }), 0, 'a GGUF file needs nothing beside it')
  const offline = { ...options, env: { ...options.env, HF_HUB_OFFLINE: '1' } }
  t.ok((await resolveModel('org/one', offline)).path.endsWith('maple-Q4.gguf'))
  t.equal((await resolveModel('org/two:sub/b-00001-of-00002.gguf', offline)).path, split.path)
})

t.test('options without an environment are refused by name', async (t) => {
  for (const options of [undefined, null, 'x', {}] as never[])
    await t.rejects(resolveModel('org/name', options), { code: 'INVALID_ARGUMENT', param: 'options' })
})

t.test('a path wins over a name, and a path that is not there is not looked up', async (t) => {
  const { hub, options } = await setUp(t)
  const folder = t.testdir({ org: { maple: {} } })
  const here = process.cwd()
  process.chdir(folder)
  t.teardown(() => process.chdir(here))
  t.strictSame(await resolveModel('org/maple', options), {
    path: join(folder, 'org', 'maple'),
    repoId: undefined,
    revision: undefined,
    commit: undefined,
    warnings: [],
  })
  for (const spec of ['./org/other', '/nowhere/model', '~/nowhere', 'C:\\models\\x', '../x']) {
    await t.rejects(resolveModel(spec, options), { code: 'MODEL_NOT_FOUND' }, spec)
  }
  await t.rejects(resolveModel(' ', options), { code: 'INVALID_ARGUMENT' })
  t.equal(hub.requests.length, 0)
})

t.test('what a repo lacks, or an index gets wrong, is said', async (t) => {
  const { hub, options } = await setUp(t)
  const index = (text: string): Record<string, Buffer> => ({
    ...shardedRepo(),
    'model.safetensors.index.json': Buffer.from(text),
  })
  const map = (map: unknown): string => JSON.stringify({ weight_map: map })
  const cases: [string, Record<string, Buffer>, string, RegExp][] = [
    ['no-config', { 'model.safetensors': Buffer.from('x') }, 'MODEL_NOT_FOUND', /config\.json/],
    ['no-weights', { 'config.json': Buffer.from('{}') }, 'MODEL_NOT_FOUND', /model\.safetensors/],
    ['no-shard', index(map({ a: 'model-9.safetensors' })), 'MODEL_NOT_FOUND', /model-9\.safetensors/],
    ['not-json', index('{'), 'INVALID_CHECKPOINT', /not JSON/],
    ['no-map', index('{}'), 'INVALID_CHECKPOINT', /weight_map/],
    ['list', index(map(['a'])), 'INVALID_CHECKPOINT', /weight_map/],
    ['number', index(map({ a: 1 })), 'INVALID_CHECKPOINT', /does not name its file/],
    ['empty', index(map({})), 'INVALID_CHECKPOINT', /names no files/],
    ['up', index(map({ a: '../x.safetensors' })), 'INVALID_CHECKPOINT', /plain file name/],
    ['absolute', index(map({ a: '/etc/x.safetensors' })), 'INVALID_CHECKPOINT', /plain file name/],
    ['kind', index(map({ a: 'README.md' })), 'INVALID_CHECKPOINT', /safetensors/],
  ]
  for (const [name, files, code, message] of cases) {
    hub.addRepo(`org/${name}`, { files })
    await t.rejects(resolveModel(`org/${name}`, options), { code, message }, name)
  }
})

t.test('offline: complete files are used, missing ones are named', async (t) => {
  const { hub, cache, options } = await setUp(t)
  hub.addRepo('org/maple', { files: shardedRepo() })
  const offline = { ...options, env: { ...options.env, HF_HUB_OFFLINE: 'yes' } }
  await t.rejects(resolveModel('org/maple', offline), {
    code: 'OFFLINE',
    message: /nothing of org\/maple.*HF_HUB_OFFLINE=0/,
  })
  const found = await resolveModel('org/maple', options)
  const before = hub.requests.length
  t.equal((await resolveModel('org/maple', offline)).path, found.path)
  const { rmSync } = await import('node:fs')
  rmSync(join(found.path, 'model-00002-of-00003.safetensors'))
  // A link whose blob is gone is as good as none.
  rmSync(
    join(
      cache,
      'models--org--maple',
      'blobs',
      readlinkSync(join(found.path, 'model-00003-of-00003.safetensors')).split('/').at(-1) as string,
    ),
  )
  await t.rejects(resolveModel('org/maple', offline), {
    code: 'OFFLINE',
    message: /model-00002-of-00003\.safetensors, model-00003/,
  })
  t.equal(hub.requests.length, before, 'the hub was not asked')
  await resolveModel('org/maple', options)
  t.equal((await resolveModel('org/maple', offline)).path, found.path, 'and an online start heals it')
})

t.test('a snapshot of plain files is read, and written where links are not allowed', async (t) => {
  const { hub, cache, options } = await setUp(t)
  const files = shardedRepo()
  const { commit } = hub.addRepo('org/maple', { files })
  const plain = { ...options, env: { ...options.env, HF_HUB_DISABLE_SYMLINKS: '1' } }
  const found = await resolveModel('org/maple', plain)
  for (const name of needed) {
    t.ok(lstatSync(join(found.path, name)).isFile(), name)
    t.ok(readFileSync(join(found.path, name)).equals(files[name] as Buffer), name)
  }
  const before = hub.requests.length
  t.equal((await resolveModel('org/maple', plain)).path, found.path)
  t.equal(hub.requests.length, before + 1)

  // As Python writes it on a system without links.
  const other = join(cache, 'models--org--other')
  mkdirSync(join(other, 'snapshots', commit), { recursive: true })
  mkdirSync(join(other, 'refs'))
  writeFileSync(join(other, 'refs', 'main'), commit)
  for (const name of needed) writeFileSync(join(other, 'snapshots', commit, name), files[name] as Buffer)
  const offline = { ...options, env: { ...options.env, HF_HUB_OFFLINE: '1' } }
  t.equal((await resolveModel('org/other', offline)).path, join(other, 'snapshots', commit))
})
