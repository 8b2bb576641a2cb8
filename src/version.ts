import { readFileSync } from 'node:fs'

const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8')
const manifest = JSON.parse(text) as { version: string; repository: { url: string } }

/** Version of this package. */
export const packageVersion = manifest.version

/** Where `git clone` gets this package's source. */
export const repository = manifest.repository.url.replace(/^git\+/, '')
