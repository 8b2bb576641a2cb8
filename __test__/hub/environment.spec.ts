import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import t from 'tap'
import { packedCacheDir, readEnvironment } from '../../src/hub/environment.js'

t.test('the cache folder, in the official order', (t) => {
  const all = {
    HF_HUB_CACHE: '/one',
    HUGGINGFACE_HUB_CACHE: '/two',
    HF_HOME: '/three',
    XDG_CACHE_HOME: '/four',
    HOME: '/five',
  }
  const expected = ['/one', '/two', '/three/hub', '/four/huggingface/hub', '/five/.cache/huggingface/hub']
  const names = Object.keys(all)
  for (const [i, folder] of expected.entries()) {
    const later = Object.fromEntries(Object.entries(all).slice(i))
    t.equal(readEnvironment(later).cacheDir, resolve(folder))
    const empty = Object.fromEntries(names.slice(0, i).map((name) => [name, ' ']))
    t.equal(readEnvironment({ ...later, ...empty }).cacheDir, resolve(folder), 'an empty variable is none')
  }
  t.equal(readEnvironment({}).cacheDir, join(homedir(), '.cache', 'huggingface', 'hub'))
  t.end()
})

t.test('paths are expanded and made absolute', (t) => {
  const env = { HOME: '/home/me', DATA: '/data' }
  const cases: [string, string][] = [
    ['~/x', '/home/me/x'],
    ['~', '/home/me'],
    ['~other/x', resolve('~other/x')],
    ['$DATA/x', '/data/x'],
    ['${DATA}x', '/datax'],
    ['$NONE/x', resolve('$NONE/x')],
    ['some/where', resolve('some/where')],
  ]
  for (const [given, expected] of cases)
    t.equal(readEnvironment({ ...env, HF_HUB_CACHE: given }).cacheDir, resolve(expected))
  t.equal(packedCacheDir(env), resolve('/home/me/.cache/maple-cpu'))
  t.equal(packedCacheDir({ ...env, XDG_CACHE_HOME: '/xdg' }), resolve('/xdg/maple-cpu'))
  t.equal(packedCacheDir({ ...env, XDG_CACHE_HOME: '/xdg', MAPLE_CACHE: '~/packed' }), resolve('/home/me/packed'))
  t.end()
})

t.test('switches, times and the endpoint', (t) => {
  t.match(readEnvironment({}), {
    offline: false,
    symlinks: true,
    downloadTimeoutMs: 10_000,
    etagTimeoutMs: 10_000,
    endpoint: { href: 'https://huggingface.co/' },
  })
  for (const on of ['1', 'on', 'Yes', 'TRUE']) t.equal(readEnvironment({ HF_HUB_OFFLINE: on }).offline, true)
  for (const off of ['0', 'no', 'false', '']) t.equal(readEnvironment({ HF_HUB_OFFLINE: off }).offline, false)
  t.match(readEnvironment({ HF_HUB_DOWNLOAD_TIMEOUT: '30', HF_HUB_ETAG_TIMEOUT: '0.5' }), {
    downloadTimeoutMs: 30_000,
    etagTimeoutMs: 500,
  })
  t.equal(readEnvironment({ HF_ENDPOINT: 'http://mirror:8080/hf//' }).endpoint.href, 'http://mirror:8080/hf')
  for (const bad of ['mirror', 'ftp://mirror', 'https://me:hunter2@mirror', 'https://mirror/?a=b']) {
    t.throws(
      () => readEnvironment({ HF_ENDPOINT: bad }),
      { code: 'INVALID_ARGUMENT', param: 'HF_ENDPOINT', message: /^(?!.*hunter2)/ },
      bad,
    )
  }
  t.throws(() => readEnvironment({ HF_HUB_ETAG_TIMEOUT: 'soon' }), {
    code: 'INVALID_ARGUMENT',
    param: 'HF_HUB_ETAG_TIMEOUT',
  })
  t.end()
})
