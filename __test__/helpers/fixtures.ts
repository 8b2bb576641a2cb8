import { fileURLToPath } from 'node:url'

/** Path of a checkpoint in `__test__/fixtures`. */
export function fixture(name: string): string {
  return fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url))
}
