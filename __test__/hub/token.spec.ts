import { inspect } from 'node:util'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type ResolveOptions, resolveModel } from '../../src/hub/index.js'
import { type Fault, FakeHub, type SeenRequest, shardedRepo } from './fake-hub.js'

// Waits are the machine's: how busy it is must not decide.
t.setTimeout(180_000)

const token = 'hf_verySecretToken123'

async function setUp(t: Test) {
  const hub = await FakeHub.start()
  t.teardown(() => hub.stop())
  hub.token = token
  hub.addRepo('org/maple', { files: shardedRepo(2, 2000) })
  const home = t.testdir({ token: `  ${token}\r\n` })
  const env = { HOME: home, HF_ENDPOINT: hub.endpoint, HF_HUB_CACHE: join(home, 'hub') }
  const said: string[] = []
  const options: ResolveOptions = {
    env: { ...env, HF_TOKEN: token },
    retryPauseMs: 1,
    onWarning: (message) => said.push(message),
  }
  return { hub, home, env, options, said }
}

t.test('the token opens the hub, from every place it may be in', async (t) => {
  const { home, env, options } = await setUp(t)
  const ways: Record<string, string>[] = [
    { HF_TOKEN: token },
    { HF_TOKEN: ` ${token}\n`, HUGGING_FACE_HUB_TOKEN: 'other' },
    { HF_TOKEN: ' ', HUGGING_FACE_HUB_TOKEN: token },
    { HF_TOKEN_PATH: join(home, 'token') },
    { HF_TOKEN_PATH: '~/token' },
    { HF_HOME: home },
  ]
  for (const [i, way] of ways.entries()) {
    await resolveModel('org/maple', { ...options, env: { ...env, ...way, HF_HUB_CACHE: join(home, `hub${i}`) } })
  }
  await t.rejects(resolveModel('org/maple', { ...options, env }), { code: 'HUB_NOT_FOUND', message: /set HF_TOKEN/ })
  await t.rejects(resolveModel('org/maple', { ...options, env: { ...env, HF_TOKEN: 'wrong' } }), { code: 'HUB_AUTH' })
  const bad = await resolveModel('org/maple', { ...options, env: { ...env, HF_TOKEN: `${token}\n${token} x` } }).catch(
    (error: unknown) => error,
  )
  t.match(bad, { code: 'HUB_AUTH' })
  t.notMatch(inspect(bad), token)
})

t.test('no server but the hub sees the token, and no message holds it or a signature', async (t) => {
  const elsewhere = (hub: FakeHub) => hub.contentOrigin
  const cases: [string, (hub: FakeHub) => (request: SeenRequest) => Fault | undefined][] = [
    ['as it should be', () => () => undefined],
    [
      'a listing redirected to another port',
      (hub) => (r) =>
        r.server === 'hub' && r.file === undefined
          ? { status: 307, headers: { location: `${elsewhere(hub)}${r.url}` } }
          : undefined,
    ],
    [
      'a listing redirected to another name of the host',
      (hub) => (r) =>
        r.server === 'hub' && !r.headers.host?.startsWith('localhost')
          ? { status: 302, headers: { location: hub.endpoint.replace('127.0.0.1', 'localhost') + r.url } }
          : undefined,
    ],
    [
      'a paging link to another host',
      (hub) => (r) =>
        r.file !== undefined || r.server !== 'hub'
          ? undefined
          : r.url.includes('/revision/')
            ? { body: JSON.stringify({ sha: 'a'.repeat(40) }) }
            : {
                body: '[]',
                headers: { link: `<${elsewhere(hub)}/api/next?X-Signature=${hub.signature}>; rel="next"` },
              },
    ],
    ['content refused', () => (r) => (r.server === 'content' ? { status: 403 } : undefined)],
    ['content cut', () => (r) => (r.server === 'content' ? { cutAfter: 10 } : undefined)],
    ['content damaged', () => (r) => (r.server === 'content' ? { corrupt: true } : undefined)],
    [
      'content limited',
      () => (r) => (r.server === 'content' ? { status: 429, headers: { 'retry-after': '0.001' } } : undefined),
    ],
    [
      'content redirected in circles',
      (hub) => (r) =>
        r.server === 'content'
          ? { status: 302, headers: { location: `${r.url}&X-Signature=${hub.signature}` } }
          : undefined,
    ],
  ]
  for (const [name, misbehave] of cases) {
    await t.test(name, async (t) => {
      const { hub, options, said } = await setUp(t)
      hub.misbehave = misbehave(hub)
      const result: unknown = await resolveModel('org/maple', options).catch((error: unknown) => error)
      if (name === 'as it should be') t.match(result, { repoId: 'org/maple' })
      const toOthers = hub.requests.filter(
        (request) => request.server === 'content' || request.headers.host?.startsWith('localhost'),
      )
      t.ok(toOthers.length > 0, 'another server was reached')
      for (const request of toOthers) t.equal(request.headers.authorization, undefined, request.url)
      t.ok(hub.requests.some((request) => request.headers.authorization === `Bearer ${token}`))
      const shown = inspect([result, said, result instanceof Error ? [result.stack, result.cause] : undefined], {
        depth: 10,
        showHidden: true,
      })
      t.notOk(shown.includes(token), shown)
      t.notOk(shown.includes(hub.signature), shown)
    })
  }
})
