import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { createError, errorCodes } from '../../src/errors.js'
import { type NativeAddon, fromNative, openAddon } from '../../src/native.js'

t.test('a missing addon is one clear message', async (t) => {
  const cause = new Error('Cannot find native binding')
  const error = await openAddon(() => Promise.reject(cause)).catch((error: unknown) => error)
  t.match(error, { name: 'NativeAddonError', code: 'NATIVE_MISSING', cause })
  const { message } = error as Error
  for (const word of [`${process.platform}-${process.arch}`, process.version, `maple-cpu-${process.platform}-`]) {
    t.ok(message.includes(word), `${word} in ${message}`)
  }
  t.match(message, /npm install maple-cpu@(\S+) maple-cpu-\S+@\1\n/)
  t.match(message, /git clone --branch v\S+ https:\S+\/maple-cpu\.git && npm ci --prefix maple-cpu && npm install /)
  t.match(message, /Rust 1\.90/)
  if (process.platform === 'linux') t.match(message, /glibc \d|musl/)
})

t.test('an addon that the system refuses is told from one that is missing', async (t) => {
  const loader = readFileSync(new URL('../../index.js', import.meta.url), 'utf8')
  const names = [...loader.matchAll(/require\('\.\/(maple-cpu\..*?\.node)'\)/g)].map(([, name = '']) => name)
  const broken = Object.fromEntries(names.map((name) => [name, 'no library']))
  const own = { 'package.json': '{"type": "module"}', 'index.js': loader }
  const folder = t.testdir({ broken: { ...own, ...broken }, bare: own })
  const open = (name: string) => import(pathToFileURL(join(folder, name, 'index.js')).href) as Promise<NativeAddon>
  await t.rejects(
    openAddon(() => open('broken')),
    { code: 'NATIVE_MISSING', message: /is there, but this platform .* does not load it: [^]*maple-cpu\..*\.node/ },
  )
  await t.rejects(
    openAddon(() => open('bare')),
    { code: 'NATIVE_MISSING', message: /has no native addon for this platform/ },
  )
})

t.test('an addon of another version is refused', async (t) => {
  const other = { version: () => '0.0.1-other' } as NativeAddon
  await t.rejects(
    openAddon(() => Promise.resolve(other)),
    { code: 'NATIVE_MISMATCH', message: /0\.0\.1-other/ },
  )
})

t.test('errors of the addon keep their code, their text and their origin', async (t) => {
  for (const code of errorCodes) {
    const native = new Error(`${code}: what happened: on\nseveral lines`)
    const error = fromNative(native)
    t.match(error, { code, message: 'what happened: on\nseveral lines', cause: native })
    t.equal(error.constructor, createError(code, '').constructor)
  }
  t.match(fromNative(new Error('INVALID_ARGUMENT: `topK` must be whole')), { param: 'topK' })
  t.match(fromNative(Object.assign(new Error('Get TypedArray info failed'), { code: 'InvalidArg' })), {
    code: 'INVALID_ARGUMENT',
  })
  t.match(fromNative(Object.assign(new Error('on seed'), { code: 'BigintExpected' })), { code: 'INVALID_ARGUMENT' })
  for (const odd of [new Error('Panic in async function'), new Error('NO_SUCH_CODE: x'), 'text', undefined]) {
    t.match(fromNative(odd), { code: 'ENGINE_FAILED' })
  }
})
