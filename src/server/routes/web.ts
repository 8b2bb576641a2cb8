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

/** Paths of pages, by the file they are made of. */
const PAGES: Readonly<Record<string, string>> = { 'index.html': '/', 'docs.html': '/docs' }

/** Routes of the pages, `/` and `/docs`, and of the files they are made of; none where they were not built. */
export function pages(): readonly Route[] {
  return files().flatMap((name) => {
    const own: Route = { path: `/${name}`, name: 'page', get: file(name) }
    const path = PAGES[name]
    return path === undefined ? [own] : [{ path, get: page(name) }, own]
  })
}

/**
 * A page links its files by their names alone, so its path must not end with a slash where it has a name, and must where it
 * is the root of an app mounted below a path.
 */
function page(name: string): RequestHandler {
  const send = file(name)
  return (req, res, next) => {
    const path = req.originalUrl.replace(/\?.*/s, '')
    if (req.path.length > 1 && req.path.endsWith('/')) res.redirect(308, `..${req.path.slice(0, -1)}`)
    else if (req.path === '/' && !path.endsWith('/')) res.redirect(308, `./${path.slice(path.lastIndexOf('/') + 1)}/`)
    else send(req, res, next)
  }
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
