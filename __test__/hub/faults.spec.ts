import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readdirSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type ResolveOptions, resolveModel } from '../../src/hub/index.js'
import { type Fault, FakeHub, type SeenRequest, sha256 } from './fake-hub.js'

// Waits are the machine's: how busy it is must not decide.
t.setTimeout(180_000)

const weights = createHash('shake256', { outputLength: 3_000_000 }).update('weights').digest()
const files = { 'config.json': Buffer.from('{"model_type":"maple"}'), 'model.safetensors': weights }

async function setUp(t: Test, env: Record<string, string> = {}) {
  const hub = await FakeHub.start()
  t.teardown(() => hub.stop())
  const home = t.testdir({})
  const cache = join(home, 'hub')
  hub.addRepo('org/maple', { files })
  const warnings: string[] = []
  const options: ResolveOptions = {
    env: { HOME: home, HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: cache, ...env },
    retryPauseMs: 1,
    onWarning: (message) => warnings.push(message),
  }
  const blobs = join(cache, 'models--org--maple', 'blobs')
  return { hub, cache, blobs, options, warnings }
}

/** Faults for the first requests of one file, by server and method; the rest is served well. */
function first(server: 'hub' | 'content', method: string, file: string | undefined, faults: Fault[]) {
  return (request: SeenRequest): Fault | undefined =>
    request.server === server && request.method === method && request.file === file
      ? faults[request.earlier]
      : undefined
}

const content = (faults: Fault[]) => first('content', 'GET', 'model.safetensors', faults)

t.test('faults that pass end in the right files', async (t) => {
  const cases: [string, (request: SeenRequest) => Fault | undefined, Record<string, string>?][] = [
    ['cut short, twice', content([{ cutAfter: 10_000 }, { cutAfter: 700_000 }])],
    ['cut, then the range is ignored', content([{ cutAfter: 10_000 }, { ignoreRange: true }])],
    ['cut, then the range begins elsewhere', content([{ cutAfter: 10_000 }, { shiftRange: 5 }])],
    ['cut, then another total', content([{ cutAfter: 10_000 }, { total: 2_000_000 }])],
    ['cut, then 416', content([{ cutAfter: 10_000 }, { status: 416 }])],
    ['cut, then the body is another', content([{ cutAfter: 10_000, headers: { etag: '"old"' } }])],
    ['cut, then the body is another and ranges do not mind', content([{ corrupt: true, cutAfter: 10_000 }])],
    ['damaged', content([{ corrupt: true }])],
    ['too long', content([{ extra: 10 }])],
    ['stalls', content([{ stallAfter: 10_000 }]), { HF_HUB_DOWNLOAD_TIMEOUT: '0.2' }],
    ['503 from the content server', content([{ status: 503 }, { status: 502 }])],
    ['429 with a pause', content([{ status: 429, headers: { 'retry-after': '0.01' } }])],
    ['a compressed answer', content([{ headers: { 'content-encoding': 'gzip' } }])],
    ['408 and 500 from the listing', first('hub', 'GET', undefined, [{ status: 408 }, { status: 500 }])],
    [
      '429 from the listing',
      first('hub', 'GET', undefined, [{ status: 429, headers: { ratelimit: '"api";r=0;t=0' } }]),
    ],
    [
      '429 by date',
      first('hub', 'GET', undefined, [{ status: 429, headers: { 'retry-after': new Date().toUTCString() } }]),
    ],
    ['503 for a description', first('hub', 'HEAD', 'model.safetensors', [{ status: 503 }])],
    [
      'another etag at first',
      first('hub', 'HEAD', 'model.safetensors', [{ headers: { 'x-linked-etag': `"${'0'.repeat(64)}"` } }]),
    ],
    ['a text file cut short', first('hub', 'GET', 'config.json', [{ cutAfter: 3 }])],
    ['a text file damaged', first('hub', 'GET', 'config.json', [{ corrupt: true }])],
    [
      'weak etags',
      (request) =>
        request.file === 'model.safetensors' && request.server === 'hub'
          ? { headers: { 'x-linked-etag': `W/"${sha256(weights)}"` } }
          : undefined,
    ],
  ]
  for (const [name, misbehave, env] of cases) {
    await t.test(name, async (t) => {
      const { hub, blobs, options } = await setUp(t, env)
      hub.misbehave = misbehave
      const { path } = await resolveModel('org/maple', options)
      t.ok(readFileSync(join(path, 'model.safetensors')).equals(weights))
      t.ok(readFileSync(join(path, 'config.json')).equals(files['config.json']))
      t.equal(readdirSync(blobs).length, 2, 'no unfinished file is left')
    })
  }
})

t.test('faults that last end in an error that says which', async (t) => {
  const always =
    (fault: Fault, server: 'hub' | 'content' = 'content') =>
    (request: SeenRequest) =>
      request.server === server ? fault : undefined
  const onlyFile = (fault: Fault) => (request: SeenRequest) => (request.file === undefined ? undefined : fault)
  const cases: [string, (request: SeenRequest) => Fault | undefined, string, RegExp][] = [
    ['always damaged', always({ corrupt: true }), 'HUB_BAD_RESPONSE', /model\.safetensors.*damaged.*sha256/],
    ['always 503', always({ status: 503 }), 'HUB_UNREACHABLE', /503/],
    ['always cut', always({ cutAfter: 100 }), 'HUB_UNREACHABLE', /model\.safetensors|broke off/],
    ['content refused', always({ status: 403 }), 'HUB_BAD_RESPONSE', /content server .*403/],
    ['wrong token', always({ status: 401 }, 'hub'), 'HUB_AUTH', /token/],
    ['forbidden', always({ status: 403 }, 'hub'), 'HUB_AUTH', /403/],
    [
      'gated',
      onlyFile({ status: 403, headers: { 'x-error-code': 'GatedRepo' } }),
      'HUB_GATED',
      /Ask for access at http.*org\/maple/,
    ],
    ['gated, no token', onlyFile({ status: 401, headers: { 'x-error-code': 'GatedRepo' } }), 'HUB_GATED', /HF_TOKEN/],
    [
      'private or missing',
      always({ status: 401, headers: { 'x-error-code': 'RepoNotFound' } }, 'hub'),
      'HUB_NOT_FOUND',
      /private/,
    ],
    [
      'disabled',
      always({ status: 403, headers: { 'x-error-message': 'Access to this resource is disabled.' } }, 'hub'),
      'HUB_NOT_FOUND',
      /disabled/,
    ],
    [
      'told to wait for days',
      always({ status: 429, headers: { 'retry-after': '300000' } }, 'hub'),
      'HUB_UNREACHABLE',
      /5000 minutes/,
    ],
    ['odd status', always({ status: 418 }, 'hub'), 'HUB_BAD_RESPONSE', /418/],
    ['not JSON', always({ body: '<html>Sign in</html>' }, 'hub'), 'HUB_BAD_RESPONSE', /not JSON.*sign-in page/],
    ['no commit', always({ body: '{"siblings":[]}' }, 'hub'), 'HUB_BAD_RESPONSE', /sha/],
    [
      'a name that leaves',
      always({ body: JSON.stringify({ sha: 'a'.repeat(40), siblings: [{ rfilename: '../../x' }] }) }, 'hub'),
      'HUB_BAD_RESPONSE',
      /leads out/,
    ],
    [
      'a name that leaves, the other way',
      always({ body: JSON.stringify({ sha: 'a'.repeat(40), siblings: [{ rfilename: 'a\\..\\..\\x' }] }) }, 'hub'),
      'HUB_BAD_RESPONSE',
      /leads out/,
    ],
    [
      'another commit',
      onlyFile({ headers: { 'x-repo-commit': 'c'.repeat(40) } }),
      'HUB_BAD_RESPONSE',
      /answers of c{40}/,
    ],
    [
      'an etag that verifies nothing',
      onlyFile({ headers: { etag: '"1"', 'x-linked-etag': '"2"' } }),
      'HUB_BAD_RESPONSE',
      /neither a git hash/,
    ],
    [
      'an etag that moves',
      (request) =>
        request.file === 'model.safetensors' && request.server === 'hub'
          ? { headers: { 'x-linked-etag': `"${sha256(Buffer.from(`${request.method}${request.earlier}`))}"` } }
          : undefined,
      'HUB_BAD_RESPONSE',
      /another etag/,
    ],
    [
      'redirects in a circle',
      (request) => ({ status: 302, headers: { location: request.url } }),
      'HUB_BAD_RESPONSE',
      /circles/,
    ],
    [
      'redirects without end',
      (request) => ({ status: 302, headers: { location: `${request.url}x` } }),
      'HUB_BAD_RESPONSE',
      /circles/,
    ],
    [
      'redirects to a file',
      always({ status: 302, headers: { location: 'file:///etc/passwd' } }, 'hub'),
      'HUB_BAD_RESPONSE',
      /file:/,
    ],
  ]
  for (const [name, misbehave, code, message] of cases) {
    await t.test(name, async (t) => {
      const { hub, cache, options } = await setUp(t)
      hub.misbehave = misbehave
      await t.rejects(resolveModel('org/maple', options), { code, message })
      t.notOk(existsSync(join(cache, 'models--org--maple', 'refs')), 'nothing incomplete is announced')
    })
  }
})

t.test('401, 403 and 404 are not asked again, 503 five times', async (t) => {
  for (const [status, requests] of [
    [401, 1],
    [403, 1],
    [404, 1],
    [503, 6],
  ] as const) {
    const { hub, options } = await setUp(t)
    hub.misbehave = () => ({ status })
    await t.rejects(resolveModel('org/maple', options))
    t.equal(hub.requests.length, requests, `${status}`)
  }
})

t.test('a resumed download asks for the rest only, also of a file that a dead process left', async (t) => {
  const { hub, blobs, options } = await setUp(t)
  const stop = new AbortController()
  hub.misbehave = content([{ cutAfter: 2_000_000 }, { stallAfter: 0 }])
  const reason = new Error('enough')
  const waiting = resolveModel('org/maple', { ...options, signal: stop.signal })
  const check = setInterval(() => hub.count({ server: 'content' }) === 2 && stop.abort(reason), 5)
  await t.rejects(waiting, reason, 'rejects with the reason of the signal')
  clearInterval(check)
  const ranges = (): (string | undefined)[] =>
    hub.requests.filter((request) => request.server === 'content').map((request) => request.headers.range)
  t.match(ranges(), [undefined, /^bytes=\d{5,7}-$/])
  const [left] = readdirSync(blobs).filter((name) => name.endsWith('.incomplete'))
  t.match(left, `${sha256(weights)}.maple-free-`)

  // Full length, but damaged: found out without asking for a byte, then fetched again.
  writeFileSync(join(blobs, left as string), Buffer.alloc(weights.length))
  hub.requests.length = 0
  hub.misbehave = content([{ cutAfter: 2_000_000 }, { stallAfter: 0 }])
  const again = new AbortController()
  const checkAgain = setInterval(() => hub.count({ server: 'content' }) === 2 && again.abort(reason), 5)
  await t.rejects(resolveModel('org/maple', { ...options, signal: again.signal }), reason)
  clearInterval(checkAgain)
  t.match(ranges(), [undefined, /^bytes=\d{5,7}-$/])

  // Longer than the file: not of it.
  const [free] = readdirSync(blobs).filter((name) => name.endsWith('.incomplete'))
  truncateSync(join(blobs, free as string), weights.length + 1)
  hub.requests.length = 0
  hub.misbehave = () => undefined
  const { path } = await resolveModel('org/maple', options)
  t.strictSame(ranges(), [undefined])
  t.ok(readFileSync(join(path, 'model.safetensors')).equals(weights))
})

t.test('a hub that is down: complete files are used at once, with a warning', async (t) => {
  const { hub, options, warnings } = await setUp(t, { HF_HUB_ETAG_TIMEOUT: '0.2' })
  const found = await resolveModel('org/maple', options)
  const closed = await new Promise<number>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })
  const away = { ...options, env: { ...options.env, HF_ENDPOINT: `http://127.0.0.1:${closed}` } }
  t.equal((await resolveModel('org/maple', away)).path, found.path)
  t.match(warnings, [/refused.*already in the cache/])
  for (const fault of [
    { status: 503 },
    { status: 401 },
    { body: '<html>' },
    { headers: { 'content-length': '5000' }, body: '{' },
  ] satisfies Fault[]) {
    hub.requests.length = 0
    hub.misbehave = () => fault
    const again = await resolveModel('org/maple', options)
    t.equal(again.path, found.path)
    t.equal(again.warnings.length, 1)
    t.equal(hub.requests.length, 1)
  }
  hub.misbehave = () => undefined
  await t.rejects(resolveModel('org/maple@gone', options), { code: 'HUB_NOT_FOUND' })
  await t.rejects(resolveModel('org/other', away), { code: 'HUB_UNREACHABLE', message: /refused/ })
})

t.test('aborting before, and while waiting as told, ends at once', async (t) => {
  const { hub, options, warnings } = await setUp(t)
  const reason = new Error('enough')
  await t.rejects(resolveModel('org/maple', { ...options, signal: AbortSignal.abort(reason) }), reason)
  t.equal(hub.requests.length, 0)
  hub.misbehave = () => ({ status: 429, headers: { 'retry-after': '1800' } })
  const stop = new AbortController()
  const waiting = resolveModel('org/maple', {
    ...options,
    signal: stop.signal,
    onWarning: (message) => (warnings.push(message), stop.abort(reason)),
  })
  await t.rejects(waiting, reason)
  t.match(warnings, [/429.*Waiting 1800 s/])
})

t.test('a listing in pages is read to its end, and not for ever', async (t) => {
  const { hub, options } = await setUp(t)
  const pages = (request: SeenRequest): Fault | undefined => {
    if (request.url.includes('/revision/')) return { body: JSON.stringify({ sha: 'a'.repeat(40) }) }
    const page = Number(new URL(request.url, hub.endpoint).searchParams.get('page') ?? 0)
    const names = Object.keys(files).map((path) => ({ type: 'file', path: page === 2 ? path : `page${page}/${path}` }))
    return {
      body: JSON.stringify([{ type: 'directory', path: 'page' }, ...names]),
      headers: page === 2 ? {} : { link: `<${hub.endpoint}/api/models/org/maple/tree/x?page=${page + 1}>; rel="next"` },
    }
  }
  hub.addRepo('org/maple', { files, commit: 'a'.repeat(40) })
  hub.misbehave = (request) => (request.file === undefined ? pages(request) : undefined)
  const { path } = await resolveModel('org/maple', options)
  t.ok(readFileSync(join(path, 'model.safetensors')).equals(weights))
  for (const next of ['same', 'counting']) {
    let page = 0
    hub.misbehave = (request) =>
      request.url.includes('/revision/')
        ? { body: JSON.stringify({ sha: 'b'.repeat(40) }) }
        : {
            body: '[]',
            headers: {
              link: `<${hub.endpoint}/api/models/org/none/tree/x?page=${next === 'same' ? 1 : ++page}>; rel="next"`,
            },
          }
    await t.rejects(resolveModel('org/none', options), { code: 'HUB_BAD_RESPONSE', message: /goes on after/ }, next)
  }
})
