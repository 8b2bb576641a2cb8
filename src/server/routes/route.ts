import type { Application, RequestHandler } from 'express'
import { ApiError } from '../../openai/errors.js'

/** One path of the route table with its methods. HEAD goes where GET goes. */
export interface Route {
  readonly path: string
  /** What logs and metrics call it [the path]. */
  readonly name?: string
  readonly get?: RequestHandler | undefined
  /** Handlers in order: a POST usually reads its body first. */
  readonly post?: readonly RequestHandler[] | undefined
}

/** The methods of a route, as in `Allow`. */
function methods({ get, post }: Route): string {
  return [get ? 'GET, HEAD' : '', post ? 'POST' : '', 'OPTIONS'].filter((part) => part !== '').join(', ')
}

/** Puts a route into the app; methods it lacks are 405 with `Allow`. */
export function mount(app: Application, { path, get, post }: Route): void {
  const route = app.route(path)
  const allow = methods({ path, get, post })
  if (post) route.post(...post)
  if (get) route.get(get)
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
}

/** Looks paths up in the route table. */
export function pathLookup(routes: readonly Route[]): (path: string) => PathInfo {
  const info = (route: Route): PathInfo => ({ name: route.name ?? route.path, allow: methods(route) })
  const unknown: PathInfo = { name: 'other', allow: 'GET, HEAD, POST, OPTIONS' }
  const exact = new Map(routes.map((route) => [route.path, info(route)]))
  const open = routes
    .filter(({ path }) => path.includes('*'))
    .map((route) => ({ prefix: route.path.slice(0, route.path.indexOf('*')), ...info(route) }))
  return (path) => {
    const plain = path.length > 1 ? path.replace(/\/$/, '') : path
    return exact.get(plain) ?? open.find(({ prefix }) => plain.startsWith(prefix)) ?? unknown
  }
}
