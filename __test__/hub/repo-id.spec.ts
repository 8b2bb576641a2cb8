import { join, relative } from 'node:path'
import fc from 'fast-check'
import t from 'tap'
import { isRevision, isSafeFileName, parseRepoId, staysInside } from '../../src/hub/repo-id.js'

t.test('names are taken apart', (t) => {
  const cases: [string, string, string, string | undefined][] = [
    ['deepgrove/maple-preview', 'deepgrove/maple-preview', 'main', undefined],
    ['a/b_C.d-1@v1.0', 'a/b_C.d-1', 'v1.0', undefined],
    ['a/b@refs/pr/12', 'a/b', 'refs/pr/12', undefined],
    ['a/b:sub/f.gguf', 'a/b', 'main', 'sub/f.gguf'],
    ['a/b@feature/x:f.Q4@2.gguf', 'a/b', 'feature/x', 'f.Q4@2.gguf'],
  ]
  for (const [spec, id, revision, file] of cases) t.strictSame(parseRepoId(spec), { id, revision, file })
  t.end()
})

t.test('names that no repo can have are refused, each with its reason', (t) => {
  const specs = [
    'maple',
    'a/b/c',
    '/b',
    'a/',
    'a/-b',
    'a/b.',
    'a/b--c',
    'a/b..c',
    'a/b.git',
    'a/b c',
    'a/ü',
    `a/${'b'.repeat(97)}`,
  ]
  const revisions = [
    '',
    'a b',
    'a..b',
    '/a',
    'a/',
    'a//b',
    'a.lock',
    '.a',
    'x/.a',
    'a\\b',
    'a~1',
    'a^',
    'a?',
    'a*',
    'a[',
    '@{x',
    '-x',
    'a\n',
    'x'.repeat(256),
  ]
  const files = ['', 'model.bin', '../f.gguf', '/f.gguf', 'a\\f.gguf', 'a//f.gguf', 'C:f.gguf', 'f\n.gguf']
  const all = [...specs, ...revisions.map((revision) => `a/b@${revision}`), ...files.map((file) => `a/b:${file}`)]
  for (const spec of all)
    t.throws(() => parseRepoId(spec), { code: 'MODEL_NOT_FOUND', message: /^[^\n]*org\/name[^\n]*$/ }, spec)
  t.end()
})

t.test('whatever passes as a name stays inside its folder', (t) => {
  const hostile = fc
    .array(fc.constantFrom('..', '.', '/', '\\', 'a', 'b.gguf', ':', '\0', '//', '~', 'C:', ' '), { maxLength: 8 })
    .map((parts) => parts.join(''))
  const inside = (name: string): boolean =>
    relative('/cache/repo', join('/cache/repo', ...name.split('/'))).split('/')[0] !== '..'
  fc.assert(
    fc.property(fc.oneof(hostile, fc.string()), (name) => {
      if (staysInside(name) || isSafeFileName(name) || isRevision(name))
        t.ok(inside(name) && !name.startsWith('/'), name)
    }),
  )
  t.end()
})
