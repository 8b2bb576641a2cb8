import type { Application, RequestHandler } from 'express'
import { ApiError } from '../../openai/errors.js'

/** One path of the route table with its methods. HEAD goes where GET goes. */
export interface Route {
  readonly path: string
  /** What logs and metrics call it [the path]. */
  readonly name?: string
  readonly get?: RequestHandler
  /** Handlers in order: a POST usually reads its body first. */
  readonly post?: readonly RequestHandler[]
}

/** Puts a route into the app; methods it lacks are 405 with `Allow`. */
export function mount(app: Application, { path, get, post }: Route): void {
  const route = app.route(path)
  const allow = ['OPTIONS']
  if (post) {
    route.post(...post)
    allow.unshift('POST')
  }
  if (get) {
    route.get(get)
    allow.unshift('GET', 'HEAD')
  }
  route.all((req) => {
    throw new ApiError(405, `${req.method} is not allowed here; allowed: ${allow.join(', ')}`, {
      code: 'method_not_allowed',
      headers: { Allow: allow.join(', ') },
    })
  })
}

/**
 * Names the route of a path for logs and metrics: one of the table's names, or `other`, so that clients cannot make names
 * up.
 */
export function routeNames(routes: readonly Route[]): (path: string) => string {
  const exact = new Map(routes.map(({ path, name = path }) => [path, name]))
  const open = routes.flatMap(({ path, name = path }) => {
    const star = path.indexOf('*')
    return star === -1 ? [] : [{ prefix: path.slice(0, star), name }]
  })
  return (path) => {
    const plain = path.length > 1 ? path.replace(/\/$/, '') : path
    return exact.get(plain) ?? open.find(({ prefix }) => plain.startsWith(prefix))?.name ?? 'other'
  }
}
