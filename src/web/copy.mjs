// Puts what the compiler does not make beside the page: markup, style, icon, and the two libraries it imports.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(new URL('.', import.meta.url))
const out = fileURLToPath(new URL('../../dist/web/', import.meta.url))
mkdirSync(`${out}vendor`, { recursive: true })
for (const name of ['index.html', 'style.css', 'icon.svg', 'docs.html', 'docs.css']) cpSync(here + name, out + name)
const library = (specifier, name) => {
  const text = readFileSync(fileURLToPath(import.meta.resolve(specifier)), 'utf8')
  writeFileSync(`${out}vendor/${name}`, text.replace(/^\/\/# sourceMappingURL=.*$/m, ''))
}
library('marked', 'marked.js')
library('dompurify', 'purify.js')
