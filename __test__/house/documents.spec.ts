import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const at = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url))
const read = (path: string): string => readFileSync(at(path), 'utf8')
const table = new URL('rooms.js', import.meta.url).href
const { MAY_IMPORT } = (await import(table)) as { MAY_IMPORT: Readonly<Record<string, readonly string[]>> }

t.test('every room that the lint knows is there, and every room that is there the lint knows', (t) => {
  const there = readdirSync(at('src'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() || entry.name.endsWith('.ts'))
    .map(({ name }) => name.replace(/\.ts$/, ''))
  // The page is a project of its own.
  t.same(Object.keys(MAY_IMPORT).sort(), there.filter((name) => name !== 'web').sort())
  t.same(
    Object.values(MAY_IMPORT)
      .flat()
      .filter((room) => !(room in MAY_IMPORT)),
    [],
  )
  t.end()
})

t.test('the folders of the walk in architecture.md exist', (t) => {
  const walk = /```\n(POST [^]*?)```/.exec(read('docs/architecture.md'))?.[1] ?? ''
  const folders = [...walk.matchAll(/^ +(\w+)\/ /gm)].map(([, name = '']) => name)
  t.ok(folders.length > 8, folders.join())
  for (const name of new Set(folders)) t.ok(existsSync(at(`src/${name}`)) || existsSync(at(`crates/${name}`)), name)
  t.end()
})

t.test('the map in CONTRIBUTING.md has every room, and no other', (t) => {
  const map = /```\n(crates\/[^]*?)```/.exec(read('CONTRIBUTING.md'))?.[1] ?? ''
  const paths = [...map.matchAll(/^(\S+)/gm)].map(([, path = '']) => path)
  for (const path of paths) t.ok(existsSync(at(path)), path)
  const rooms = paths.filter((path) => path.startsWith('src/')).map((path) => path.replace(/^src\/|\/$|\.ts$/g, ''))
  // The two that say nothing: what the package exports, and its version.
  t.same([...rooms, 'index', 'version'].filter((name) => name !== 'web').sort(), Object.keys(MAY_IMPORT).sort())
  t.end()
})

t.test('imports point the way that CONTRIBUTING.md draws, and none points back', (t) => {
  const drawn = /^ {4}(kernels <- .*)$/m.exec(read('CONTRIBUTING.md'))?.[1] ?? ''
  const order = drawn.split(' <- ').map((name) => name.replace(/\.ts$/, ''))
  t.ok(order.length > 8, drawn)
  for (const name of order) t.ok(name in MAY_IMPORT || existsSync(at(`crates/${name}`)), name)
  for (const [place, room] of order.entries()) {
    const back = (MAY_IMPORT[room] ?? []).filter((other) => order.indexOf(other) > place)
    t.same(back, [], `${room} imports nothing that stands above it`)
  }
  t.end()
})
