/**
 * Which files of a Rust crate import which, from their text alone. An import is a path that leads into another file: in a `use`,
 * in an expression or a type, or the name of a macro. `mod x;` alone is none, and neither is what `#[cfg(test)]` rules.
 *
 * A path counts for the file it leads to, not for what that file re-exports from; that is an import of its own.
 */
import { posix } from 'node:path'
import type { Files, Graph } from './graph.js'

interface Module {
  file: string
  parent: Module | undefined
  children: Map<string, Module>
  /** Where the files of `mod x;` are looked for. */
  folder: string
  /** Paths named in it, those of `use` with the name they bind. */
  uses: { path: string[]; name: string }[]
  paths: string[][]
}

/** Blanks comments and the insides of strings and characters. */
function blank(text: string): string {
  let out = ''
  const literal =
    /\/\/[^\n]*|\/\*|\b[bc]?r(#*)"[^]*?"\1(?!#)|\b[bc]?"(?:\\[^]|[^"\\])*"|"(?:\\[^]|[^"\\])*"|b?'(?:\\(?:u\{[^}]*\}|x..|[^])|[^\\'])'/g
  let at = 0
  for (let match = literal.exec(text); match !== null; match = literal.exec(text)) {
    out += text.slice(at, match.index)
    at = literal.lastIndex
    if (match[0] === '/*') {
      // Comments of this kind nest.
      for (let depth = 1; depth > 0 && at < text.length;) {
        const [here, step] = text.startsWith('/*', at) ? [1, 2] : text.startsWith('*/', at) ? [-1, 2] : [0, 1]
        depth += here
        at += step
      }
      literal.lastIndex = at
      out += ' '
    } else {
      out += match[0].startsWith('//') ? ' ' : ' "" '
    }
  }
  return out + text.slice(at)
}

const isName = (token: string | undefined): token is string => token !== undefined && /^[A-Za-z_]/.test(token)

function tokens(text: string): string[] {
  const found = blank(text).match(/'[A-Za-z_]\w*|\d\w*|(?:r#)?[A-Za-z_]\w*|::|->|=>|\S/g) ?? []
  return found.map((token) => token.replace(/^r#/, ''))
}

/** The token after the group that opens at `open`. */
function afterGroup(all: readonly string[], open: number): number {
  let depth = 0
  for (let at = open; at < all.length; at++) {
    if ('([{'.includes(all[at] ?? '')) depth++
    else if (')]}'.includes(all[at] ?? '') && --depth === 0) return at + 1
  }
  return all.length
}

/** The token after the item, statement or field that starts at `start`. */
function afterItem(all: readonly string[], start: number): number {
  let at = start
  while (at < all.length) {
    const token = all[at] ?? ''
    if (token === ';' || token === '}') return token === ';' ? at + 1 : at
    if (token === '{') return afterGroup(all, at)
    at = token === '(' || token === '[' ? afterGroup(all, at) : at + 1
  }
  return at
}

/** Leaves out attributes, and what the attribute `cfg(test)` stands before. */
function withoutTests(all: readonly string[], file: string): string[] {
  const kept: string[] = []
  for (let at = 0; at < all.length;) {
    if (all[at] !== '#' || !(all[at + 1] === '[' || (all[at + 1] === '!' && all[at + 2] === '['))) {
      kept.push(all[at++] ?? '')
      continue
    }
    const inner = all[at + 1] === '!'
    const open = inner ? at + 2 : at + 1
    const end = afterGroup(all, open)
    const attribute = all.slice(open + 1, end - 1)
    if (attribute[0] === 'path') throw new Error(`${file}: #[path] is not followed by this check`)
    at = end
    if (!inner && attribute[0] === 'cfg' && attribute.includes('test') && !attribute.includes('not')) {
      while (all[at] === '#') at = afterGroup(all, at + 1)
      at = afterItem(all, at)
    }
  }
  return kept
}

/** The paths of a `use` from `start` on, each with the name it binds, and the token after it. */
function useTree(all: readonly string[], start: number, prefix: string[]): [Module['uses'], number] {
  const path = [...prefix]
  let at = all[start] === '::' ? start + 1 : start
  for (;;) {
    const token = all[at] ?? ''
    if (token === '{') {
      const found: Module['uses'] = []
      at++
      while (at < all.length && all[at] !== '}') {
        const [inside, next] = useTree(all, at, path)
        found.push(...inside)
        at = all[next] === ',' ? next + 1 : next
      }
      return [found, at + 1]
    }
    if (token === '$') {
      at++
      continue
    }
    if (token === 'self' && path.length > 0) at++
    else if (token === '*' || isName(token)) {
      path.push(token)
      at++
    }
    if (all[at] !== '::') break
    at++
  }
  const last = path.at(-1) ?? ''
  return all[at] === 'as' ? [[{ path, name: all[at + 1] ?? '' }], at + 2] : [[{ path, name: last }], at]
}

/** Files of the crate whose root is `root`, and what each imports. */
export function rustGraph(files: Files, root: string): Graph {
  const macros = new Map<string, string>()
  const calls: { file: string; macro: string }[] = []
  const seen: Module[] = []

  const open = (file: string, parent: Module | undefined, folder: string): Module => {
    const module: Module = { file, parent, children: new Map(), folder, uses: [], paths: [] }
    seen.push(module)
    walk(withoutTests(tokens(files.get(file) ?? ''), file), module)
    return module
  }

  const declare = (name: string, parent: Module): void => {
    const beside = posix.join(parent.folder, `${name}.rs`)
    const inside = posix.join(parent.folder, name, 'mod.rs')
    const file = [beside, inside].find((path) => files.has(path))
    if (file === undefined) throw new Error(`${parent.file}: no file for mod ${name}`)
    parent.children.set(name, open(file, parent, posix.join(parent.folder, name)))
  }

  const walk = (all: readonly string[], module: Module): void => {
    for (let at = 0; at < all.length;) {
      const token = all[at] ?? ''
      const next = all[at + 1]
      if (token === 'mod' && isName(next) && all[at + 2] === ';') {
        declare(next, module)
        at += 3
      } else if (token === 'mod' && isName(next) && all[at + 2] === '{') {
        const end = afterGroup(all, at + 2)
        const folder = posix.join(module.folder, next)
        const child = { file: module.file, parent: module, children: new Map(), folder, uses: [], paths: [] }
        seen.push(child)
        module.children.set(next, child)
        walk(all.slice(at + 3, end - 1), child)
        at = end
      } else if (token === 'use' && next !== '<') {
        const [found, end] = useTree(all, at + 1, [])
        module.uses.push(...found)
        at = end
      } else if (token === 'macro_rules') {
        macros.set(all[at + 2] ?? '', module.file)
        at += 3
      } else if (token === 'pub' && next === '(') {
        at = afterGroup(all, at + 1)
      } else if (isName(token)) {
        const path = [token]
        at++
        while (all[at] === '::' && isName(all[at + 1])) {
          path.push(all[at + 1] ?? '')
          at += 2
        }
        if (path.length > 1) module.paths.push(path)
        else if (all[at] === '!') calls.push({ file: module.file, macro: token })
      } else {
        // `<T as Trait>::name` and `::name` begin with no module of this crate.
        at += token === '::' && isName(next) ? 2 : 1
      }
    }
  }

  const top = open(root, undefined, posix.dirname(root))

  /** Follows a path from `module`; `undefined` if it begins with nothing of this crate. */
  const resolve = (
    path: readonly string[],
    module: Module,
    names: boolean,
  ): { module: Module; rest: number } | undefined => {
    let at = 1
    let here: Module | undefined
    const [first = ''] = path
    if (first === 'crate') here = top
    else if (first === 'self') here = module
    else if (first === 'super') here = module.parent
    else if (module.children.has(first)) here = module.children.get(first)
    else if (names) here = bound(first, module)
    while (here !== undefined && at < path.length) {
      const next: Module | undefined = path[at] === 'super' ? here.parent : here.children.get(path[at] ?? '')
      if (next === undefined) break
      here = next
      at++
    }
    return here && { module: here, rest: path.length - at }
  }

  /** The module that `name` stands for because of a `use`. */
  const bound = (name: string, module: Module): Module | undefined => {
    for (const use of module.uses) {
      const to = resolve(use.path, module, false)
      if (use.name === name && to?.rest === 0) return to.module
      const child = use.name === '*' && to?.rest === 1 ? to.module.children.get(name) : undefined
      if (child !== undefined) return child
    }
    return undefined
  }

  const graph = new Map<string, Set<string>>()
  const add = (from: string, to: string): void => {
    if (!graph.has(from)) graph.set(from, new Set())
    if (from !== to) graph.get(from)?.add(to)
  }
  for (const module of seen) {
    add(module.file, module.file)
    for (const path of [...module.uses.map((use) => use.path), ...module.paths]) {
      const to = resolve(path, module, true)
      if (to !== undefined) add(module.file, to.module.file)
    }
  }
  for (const { file, macro } of calls) {
    const to = macros.get(macro)
    if (to !== undefined) add(file, to)
  }
  return graph
}
