import type { Application, RequestHandler } from 'express'
import { ApiError, type ErrorForm } from '../../wire/errors.js'
import { openAiErrors } from '../../wire/openai/errors.js'

/** One path of the route table with its methods. HEAD goes where GET goes. */
export interface Route {
  readonly path: string
  /** What logs and metrics call it [the path]. */
  readonly name?: string
  readonly get?: RequestHandler | undefined
  /** Handlers in order: a POST usually reads its body first. */
  readonly post?: readonly RequestHandler[] | undefined
  readonly delete?: RequestHandler | undefined
  /** How errors look here, and on unknown paths below [the OpenAI form]. */
  readonly errors?: ErrorForm | undefined
  /** A header that may hold the bare key, beside `Authorization`. */
  readonly keyHeader?: string | undefined
}

/** The methods of a route, as in `Allow`. */
function methods({ get, post, delete: remove }: Route): string {
  return [get ? 'GET, HEAD' : '', post ? 'POST' : '', remove ? 'DELETE' : '', 'OPTIONS']
    .filter((part) => part !== '')
    .join(', ')
}

/** Puts a route into the app; methods it lacks are 405 with `Allow`. */
export function mount(app: Application, described: Route): void {
  const { path, get, post, delete: remove } = described
  const route = app.route(path)
  const allow = methods(described)
  if (post) route.post(...post)
  if (get) route.get(get)
  if (remove) route.delete(remove)
  route.all((req) => {
    throw new ApiError(405, `${req.method} is not allowed here; allowed: ${allow}`, {
      code: 'method_not_allowed',
      headers: { Allow: allow },
    })
  })
}

/** What is known of a path before a route takes it. */
export interface PathInfo {
  /** For logs and metrics: one of the table's names, or `other`, so that clients cannot make names up. */
  readonly name: string
  /** The methods it has, as in `Allow`. */
  readonly allow: string
  /** How errors of this path look. */
  readonly errors: ErrorForm
  readonly keyHeader: string | undefined
}

/** Looks paths up in the route table. A path below a route's that is no route itself has the errors of that route. */
export function pathLookup(routes: readonly Route[]): (path: string) => PathInfo {
  const info = (route: Route): PathInfo => ({
    name: route.name ?? route.path,
    allow: methods(route),
    errors: route.errors ?? openAiErrors,
    keyHeader: route.keyHeader,
  })
  const unknown = { name: 'other', allow: 'GET, HEAD, POST, OPTIONS' }
  const exact = new Map(routes.map((route) => [route.path, info(route)]))
  const open = routes
    .filter(({ path }) => /[*:]/.test(path))
    .map((route) => ({ matches: matcher(route.path), ...info(route) }))
  const below = routes
    .filter(({ errors }) => errors !== undefined)
    .map((route) => ({ prefix: `${route.path}/`, ...info(route) }))
  return (path) => {
    const plain = path.length > 1 ? path.replace(/\/$/, '') : path
    const known = exact.get(plain) ?? open.find(({ matches }) => matches.test(plain))
    if (known) return known
    const { errors, keyHeader } = below.find(({ prefix }) => plain.startsWith(prefix)) ?? {
      errors: openAiErrors,
      keyHeader: undefined,
    }
    return { ...unknown, errors, keyHeader }
  }
}

/** What a path with parameters takes: `:id` is one segment, `*id` all that follows. */
function matcher(path: string): RegExp {
  const parts = path
    .split('/')
    .map((part) => (part.startsWith(':') ? '[^/]+' : part.startsWith('*') ? '.*' : part.replaceAll('.', '\\.')))
  return new RegExp(`^${parts.join('/')}$`, 's')
}
