import { readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { RequestHandler } from 'express'
import type { Route } from './route.js'

/** The built page, from the package's root both for compiled and for plain sources. */
const FOLDER = fileURLToPath(new URL('../../../dist/web/', import.meta.url))

/** The page may load its own files and talk to its own origin, and nothing else. */
const HEADERS = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
}

/** Routes of the chat page: `/` and the files it is made of; none where the page was not built. */
export function chatPage(): readonly Route[] {
  return files().flatMap((name) => {
    const own: Route = { path: `/${name}`, name: 'page', get: file(name) }
    return name === 'index.html' ? [{ ...own, path: '/' }, own] : [own]
  })
}

function files(): string[] {
  try {
    const entries = readdirSync(FOLDER, { recursive: true, withFileTypes: true })
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) => relative(FOLDER, join(entry.parentPath, entry.name)).replaceAll('\\', '/'))
  } catch {
    return []
  }
}

function file(name: string): RequestHandler {
  return (_req, res, next) => {
    res.sendFile(
      name,
      { root: FOLDER, headers: HEADERS, maxAge: 0, lastModified: true, etag: true },
      (error?: Error) => {
        // A reader that left half way is no error; a file that is gone is.
        if (error && !res.headersSent) next(error)
      },
    )
  }
}
