import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Test } from 'tap'
import ts from 'typescript'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Writes `src/` and the given tests' programs as plain JavaScript, for child processes that must start in a moment; returns the folder. */
export function buildSources(t: Pick<Test, 'testdir'>, programs: readonly string[] = []): string {
  const built = t.testdir({})
  copyFileSync(join(root, 'package.json'), join(built, 'package.json'))
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).map((name) => join('src', name))
  for (const name of [...sources, ...programs].filter((name) => name.endsWith('.ts'))) {
    const target = join(built, name.replace(/ts$/, 'js'))
    mkdirSync(dirname(target), { recursive: true })
    const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 }
    writeFileSync(target, ts.transpileModule(readFileSync(join(root, name), 'utf8'), { compilerOptions }).outputText)
  }
  // The addon stays where it was built.
  const addon = join(root, 'index.js')
  if (existsSync(addon)) writeFileSync(join(built, 'index.js'), `export * from '${pathToFileURL(addon).href}'\n`)
  // So does the model that comes along.
  symlinkSync(join(root, 'models'), join(built, 'models'), 'junction')
  return built
}
