// The examples and the README's own code, run as they are written but for the address, and what each must print.
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const weather = /get_weather\(.*Lagos.*\)[^]*25\b.*sunny/

const expected = {
  'curl.sh':
    /maple-preview[^]*"content":"The capital of France is Paris\."[^]*data: \[DONE\][^]*"tool_calls"[^]*"text":" Paris/,
  'stream.mjs': /17 \* 23 = 391[^]*\d+ tokens/,
  'tools.mjs': weather,
  'chat.py': /> What is the capital of France\?\nThe capital of France is Paris\.\n> What about Italy\?\n.*Rome/,
  'litellm_chat.py': /\(.*Paris.*\)\nThe capital of France is Paris\.\n\d+ tokens/,
  'ai-sdk.mjs': weather,
  'langchain.mjs': /The capital of France is Paris\.\nThe capital of Japan is Tokyo\./,
  'in-process.ts': '17 * 23 = 391',
}

/** Fenced blocks of the README that are whole programs, by the name of a file that would hold them. */
function readmePrograms() {
  const text = readFileSync(join(root, 'README.md'), 'utf8')
  const extensions = { ts: 'ts', js: 'mjs', python: 'py', sh: 'sh' }
  return [...text.matchAll(/^```(\w+)\n([^]*?)^```$/gm)]
    .map(([, language, code], i) => ({ name: `readme-${i}.${extensions[language]}`, code }))
    .filter(({ name, code }) => (name.endsWith('.sh') ? code.startsWith('curl') : !name.endsWith('undefined')))
}

/**
 * Puts every program into `folder`, beside the installed clients.
 *
 * @returns each program's file, and what its output must match
 */
export function stageExamples(folder, url) {
  const place = join(folder, 'examples')
  mkdirSync(place, { recursive: true })
  cpSync(join(root, 'examples'), place, { recursive: true })
  const link = join(folder, 'node_modules', 'maple-cpu')
  rmSync(link, { force: true })
  symlinkSync(root, link, 'junction')
  const programs = readdirSync(join(root, 'examples'))
    .filter((name) => !['.md', '.json'].includes(extname(name)))
    .map((name) => ({ file: join('examples', name), output: expected[name] }))
  for (const { name, code } of readmePrograms()) {
    writeFileSync(join(place, name), code.replaceAll('http://localhost:8000', url))
    programs.push({ file: join('examples', name), output: name.endsWith('.sh') ? /data: \[DONE\]/ : /391/ })
  }
  for (const { file, output } of programs) if (!output) throw new Error(`${file}: say in examples.mjs what it prints`)
  return programs
}
