import { readFileSync, readdirSync } from 'node:fs'
import { join, sep } from 'node:path'

/** Texts of files by their paths, which use `/`. */
export type Files = ReadonlyMap<string, string>

/** For each file the files it imports. */
export type Graph = ReadonlyMap<string, ReadonlySet<string>>

/** Reads the files under `folder` (relative to `root`) that end in one of `endings`. */
export function readFiles(root: string, folder: string, endings: readonly string[]): Files {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
  const paths = names
    .map((name) => `${folder}/${name.split(sep).join('/')}`)
    .filter((path) => !path.includes('node_modules/') && endings.some((ending) => path.endsWith(ending)))
  return new Map(paths.sort().map((path) => [path, readFileSync(join(root, path), 'utf8')]))
}

/** The shortest way from `start` back to it. */
function shortest(graph: Graph, start: string): string[] | undefined {
  const from = new Map<string, string>()
  const queue = [start]
  for (const at of queue) {
    for (const next of graph.get(at) ?? []) {
      if (next === start) {
        const path = [start]
        for (let node = at; node !== start; node = from.get(node) ?? start) path.unshift(node)
        return [start, ...path]
      }
      if (!from.has(next)) {
        from.set(next, at)
        queue.push(next)
      }
    }
  }
  return undefined
}

/** Loops among imports: for each file in one the shortest, `a -> b -> a`, every loop told once. */
export function loops(graph: Graph): string[] {
  const found: string[] = []
  const told = new Set<string>()
  for (const start of [...graph.keys()].sort()) {
    if (told.has(start)) continue
    const loop = shortest(graph, start)
    if (loop === undefined) continue
    loop.forEach((file) => told.add(file))
    found.push(loop.join(' -> '))
  }
  return found
}
