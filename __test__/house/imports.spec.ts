/** The house has no loops: files import one way, and none is too long to read. ESLint finds loops of values in `src/`; those of types are found here. */
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { loops, readFiles, type Files, type Graph } from './graph.js'
import { rustGraph } from './rust.js'
import { pythonGraph, scriptGraph } from './scripts.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const crates = ['kernels', 'model', 'binding']
const training = 'models/sprout/training'
const MOST_LINES = 500

const crate = (files: Record<string, string>): Graph => rustGraph(new Map(Object.entries(files)), 'lib.rs')
const imports = (graph: Graph, file: string): string[] => [...(graph.get(file) ?? [])].sort()

for (const name of crates) {
  t.test(`no loop among files of crates/${name}`, (t) => {
    const graph = rustGraph(readFiles(root, `crates/${name}/src`, ['.rs']), `crates/${name}/src/lib.rs`)
    t.ok(graph.size > 5, 'the files were found')
    t.ok([...graph.values()].filter((to) => to.size > 0).length > graph.size / 3, 'and their imports')
    t.same(loops(graph), [])
    t.end()
  })
}

t.test('no loop among files of src, types included', (t) => {
  const graph = scriptGraph(readFiles(root, 'src', ['.ts', '.mjs']))
  t.ok(graph.get('src/maple.ts')?.has('src/chat/types.ts'), 'imports of types were found')
  t.same(loops(graph), [])
  t.end()
})

t.test('no loop among files of bench and training', (t) => {
  const python = pythonGraph(readFiles(root, training, ['.py']), training)
  t.ok(python.get(`${training}/train.py`)?.has(`${training}/data/mix.py`), 'imports were found')
  t.same(loops(python), [])
  t.same(loops(scriptGraph(readFiles(root, 'bench', ['.mjs', '.js', '.ts']))), [])
  t.end()
})

t.test(`no file over ${MOST_LINES} lines`, (t) => {
  const endings = ['.rs', '.ts', '.mjs', '.js', '.py']
  for (const folder of ['src', 'bench', training, ...crates.map((name) => `crates/${name}/src`)]) {
    const files: Files = readFiles(root, folder, endings)
    t.ok(files.size > 0, folder)
    for (const [path, text] of files) {
      const lines = text.split('\n').length - 1
      t.ok(lines <= MOST_LINES, `${path} has ${lines} lines`)
    }
  }
  t.end()
})

t.test('a planted loop is told with its path', (t) => {
  const files = {
    'lib.rs': 'mod a; mod b; mod c; pub use a::A;',
    'a.rs': 'use crate::{b::{self, B}, c};',
    'b.rs': 'pub fn b() { super::c::deep::<u8>() }',
  }
  const graph = crate({ ...files, 'c.rs': 'use crate::a::A as Other;' })
  t.same(loops(graph), ['a.rs -> c.rs -> a.rs', 'b.rs -> c.rs -> a.rs -> b.rs'])
  t.same(loops(crate({ ...files, 'c/mod.rs': '' })), [])
  t.end()
})

t.test('a module and the child it re-exports', (t) => {
  const parent = 'mod child; mod leaf; pub use child::Child; pub struct Parent;'
  const loop = ['m.rs -> m/child.rs -> m.rs']
  const of = (child: string): string[] =>
    loops(crate({ 'lib.rs': 'mod m;', 'm.rs': parent, 'm/child.rs': child, 'm/leaf.rs': '' }))
  for (const upward of [
    'use super::Parent;',
    'use super::*;',
    'use crate::m::{leaf, Parent};',
    'fn f(p: &super::Parent) {}',
    'mod inner { use super::super::Parent; }',
    '#[cfg(not(test))] use super::Parent;',
  ]) {
    t.same(of(upward), loop, upward)
  }
  for (const fine of [
    'use super::leaf::Leaf;',
    'use super::leaf;',
    '#[cfg(test)] mod tests { use super::super::Parent; } struct After;',
    '#[cfg(test)] #[allow(unused)] use super::Parent;',
    '// use super::Parent;\n/* super::Parent /* nested */ super::Parent */',
    '/// [`super::Parent`]\npub(in crate::m) fn f() { let _ = ("super::Parent", r#"a " super::Parent"#, \'"\'); }',
    "mod inner { pub struct A; } use self::inner::A; fn f<'a>(x: &'a A) {}",
    'use std::fmt; use other::m::Parent;',
  ]) {
    t.same(of(fine), [], fine)
  }
  t.end()
})

t.test('names that stand for modules, and macros', (t) => {
  const graph = crate({
    'lib.rs': '#[macro_use] mod macros; mod m; mod user; mod tests_only;',
    'macros.rs': 'macro_rules! shout { () => {} }',
    'm.rs': 'pub mod deep;',
    'm/deep.rs': 'pub fn f() {}',
    'user.rs': 'use crate::m as alias; fn f() { alias::deep::f(); shout!() }',
    'tests_only.rs': 'fn f() { crate::m::deep::f() }',
  })
  t.same(imports(graph, 'user.rs'), ['m.rs', 'm/deep.rs', 'macros.rs'])
  t.same(imports(graph, 'tests_only.rs'), ['m/deep.rs'])
  t.same(imports(graph, 'm.rs'), [], 'a declaration is no import')
  t.throws(() => crate({ 'lib.rs': '#[path = "x.rs"] mod x;' }), /#\[path\]/)
  t.throws(() => crate({ 'lib.rs': 'mod gone;' }), /no file for mod gone/)
  t.end()
})

t.test('imports of Python and of scripts', (t) => {
  const python = new Map([
    ['p/a.py', '"""\nimport d\n"""\nimport os, pack.b as other  # import d\n'],
    ['p/pack/__init__.py', ''],
    ['p/pack/b.py', 'from . import (\n    c,\n)\n'],
    ['p/pack/c.py', 'def f():\n    from a import x\n    from ..d import y\n'],
    ['p/d.py', 'from pack import c, what\n'],
  ])
  const graph = pythonGraph(python, 'p')
  t.same(imports(graph, 'p/a.py'), ['p/pack/b.py'])
  t.same(imports(graph, 'p/d.py'), ['p/pack/__init__.py', 'p/pack/c.py'])
  t.same(loops(graph), ['p/a.py -> p/pack/b.py -> p/pack/c.py -> p/a.py', 'p/d.py -> p/pack/c.py -> p/d.py'])
  const scripts = new Map([
    ['s/a.mjs', "import { x,\n  y } from './in/b.mjs'\nimport 'node:fs'"],
    ['s/in/b.mjs', "export * from '../c.mjs'"],
    ['s/c.mjs', "const a = await import('./a.mjs')"],
    ['s/t.ts', "import type { U } from './u.js'"],
    ['s/u.ts', "export type { T } from './t.js'"],
  ])
  t.same(loops(scriptGraph(scripts)), ['s/a.mjs -> s/in/b.mjs -> s/c.mjs -> s/a.mjs', 's/t.ts -> s/u.ts -> s/t.ts'])
  t.end()
})
