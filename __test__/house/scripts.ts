/** Which Python files or ECMAScript modules import which, from their text alone. */
import { posix } from 'node:path'
import type { Files, Graph } from './graph.js'

function graphOf(files: Files, imports: (path: string, text: string) => string[]): Graph {
  const known = (path: string, text: string): string[] =>
    imports(path, text).filter((to) => to !== path && files.has(to))
  return new Map([...files].map(([path, text]) => [path, new Set(known(path, text))]))
}

/** Modules are looked for in `root`, and relative ones from their own folder. An import inside a function counts, too. */
export function pythonGraph(files: Files, root: string): Graph {
  /** The file of a module, or of its package. */
  const find = (folder: string, name: string): string[] => {
    const path = posix.join(folder, ...name.split('.').filter((part) => part !== ''))
    return [`${path}.py`, `${path}/__init__.py`].filter((file) => files.has(file))
  }
  return graphOf(files, (path, text) => {
    const code = text.replace(/("""|''')[^]*?\1/g, '""').replace(/#.*|\\\n/g, '')
    const found: string[] = []
    for (const [, names = ''] of code.matchAll(/^[ \t]*import[ \t]+(.+)$/gm)) {
      for (const name of names.split(',')) found.push(...find(root, name.trim().split(/\s/)[0] ?? ''))
    }
    for (const [, dots = '', name = '', list = ''] of code.matchAll(
      /^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(\([^)]*\)|.+)$/gm,
    )) {
      const folder = dots === '' ? root : posix.join(posix.dirname(path), ...Array(dots.length - 1).fill('..'))
      for (const part of list.replace(/[()]/g, '').split(',')) {
        const child = find(folder, `${name}.${part.trim().split(/\s/)[0] ?? ''}`)
        found.push(...(child.length > 0 && part.trim() !== '' ? child : find(folder, name)))
      }
    }
    return found
  })
}

/** `import`, `export ... from` and `import()` of relative paths, those of types too; `x.js` may be written `x.ts`. */
export function scriptGraph(files: Files): Graph {
  return graphOf(files, (path, text) => {
    const targets = [...text.matchAll(/(?:\bfrom\s*|\bimport\s*\(?\s*)(['"])(\.[^'"\n]*)\1/g)]
    const paths = targets.map(([, , target = '']) => posix.join(posix.dirname(path), target))
    return paths.map((to) => (files.has(to) ? to : to.replace(/\.js$/, '.ts')))
  })
}
