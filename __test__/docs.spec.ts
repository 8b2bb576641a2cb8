import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { flagName, settings, type Setting } from '../src/config.js'
import { errorCodes } from '../src/errors.js'

const root = fileURLToPath(new URL('..', import.meta.url))
const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const pages = [
  'README.md',
  'CONTRIBUTING.md',
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
  'examples/README.md',
]

t.test('configuration.md names every setting, its flag and its default, and no other', (t) => {
  const rows = read('docs/configuration.md')
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')))
  const written = rows.map(([, env, flag, fallback]) => [env, flag, fallback])
  const real = Object.values(settings as Record<string, Setting>).map((setting) => [
    setting.env,
    `--${flagName(setting)}`,
    setting.fallback ?? 'unset',
  ])
  const sorted = (list: unknown[]): unknown[] => list.sort((a, b) => (String(a) < String(b) ? -1 : 1))
  t.same(sorted(written), sorted(real))
  t.end()
})

t.test('troubleshooting.md has every error code', (t) => {
  const text = read('docs/troubleshooting.md')
  t.same(
    errorCodes.filter((code) => !text.includes(`\`${code}\``)),
    [],
  )
  t.end()
})

t.test('links lead somewhere', (t) => {
  for (const page of pages) {
    for (const [, target = ''] of read(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      t.ok(existsSync(join(root, dirname(page), target.replace(/#.*/, ''))), `${page}: ${target}`)
    }
  }
  t.end()
})

t.test('commands, flags, scripts and variables in the documents exist', (t) => {
  const commands = /const commands.*= \[[^]*?\]/.exec(read('src/cli/main.ts'))?.[0] ?? ''
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  const sources = readdirSync(join(root, 'src/cli'))
    .map((name) => read(`src/cli/${name}`))
    .join('\n')
  const flags = new Set(Object.values(settings).map(flagName))
  const variables = new Set(
    Object.values(settings as Record<string, Setting>).flatMap(({ env, alias }) => [env, alias]),
  )
  // The compose file and the balancer have variables of their own.
  const deploy = read('deploy/compose.yaml') + read('deploy/haproxy.cfg')
  for (const page of pages) {
    const text = read(page)
    for (const [, quoted, plain] of text.matchAll(/`maple-cpu ([a-z]+)|^(?:.*\| )?maple-cpu ([a-z]+) ?(?:"|--|$)/gm))
      t.ok(commands.includes(`${quoted ?? plain}Module`), `${page}: maple-cpu ${quoted ?? plain}`)
    for (const [, name = ''] of text.matchAll(/npm run ([\w:]+)/g)) t.ok(name in scripts, `${page}: npm run ${name}`)
    for (const [, rest = ''] of text.matchAll(/maple-cpu (?:[a-z]+|COMMAND)\b([^`|\n]*)/g))
      for (const [, name = ''] of rest.matchAll(/ --([a-z-]+)/g))
        t.ok(flags.has(name) || sources.includes(name) || name === 'help', `${page}: --${name}`)
    for (const [name] of text.matchAll(/\bMAPLE_[A-Z_]+\b/g))
      t.ok(variables.has(name) || deploy.includes(name), `${page}: ${name}`)
  }
  t.end()
})

t.test('the README shows the example that runs', (t) => {
  const shown = /^```ts\n([^]*?)^```$/m.exec(read('README.md'))?.[1]
  t.equal(shown, read('examples/in-process.ts').replace(/^\/\/.*\n/, ''))
  t.end()
})
