import express, { type Express } from 'express'
import { createConfig, type Config, type ConfigSources } from '../config.js'
import { createError } from '../errors.js'
import { protocols } from '../protocols/index.js'
import { shuttingDown } from '../wire/errors.js'
import { silentLogger, type Logger } from './logger.js'
import { Metrics } from './metrics.js'
import { auth } from './middleware/auth.js'
import { jsonBody } from './middleware/body.js'
import { browserGuard, cors } from './middleware/browser.js'
import { errorHandler, notFound } from './middleware/errors.js'
import { observe } from './middleware/observe.js'
import { requestId } from './middleware/request-id.js'
import type { ServedModel } from './model.js'
import { apiDocument } from './routes/document.js'
import { health } from './routes/health.js'
import { metricsText } from './routes/metrics.js'
import { getModel, listModels } from './routes/models.js'
import { protocolRoutes } from './routes/protocol.js'
import { mount, pathLookup, type PathInfo, type Route } from './routes/route.js'
import { pages } from './routes/web.js'
import { ServerState, type LoadProgress } from './state.js'

/** What an app may be given beside its model and settings. */
export interface AppOptions {
  /** A pino logger or its like [silent]. */
  readonly logger?: Logger
  /** How far the load is, for `/health`. */
  readonly progress?: () => LoadProgress | undefined
}

/** An Express app and the state its routes share. */
export interface App {
  readonly app: Express
  readonly state: ServerState
  /** What is known of a path. */
  readonly lookup: (path: string) => PathInfo
}

/** Routes that ask for no key. */
function publicRoutes(state: ServerState): readonly Route[] {
  return [{ path: '/health', get: health(state) }, { path: '/openapi.json', get: apiDocument(state) }, ...pages()]
}

/** Routes that ask for the key, if there is one, and are turned away when the server stops. */
function apiRoutes(state: ServerState): readonly Route[] {
  const body = jsonBody(state.config.maxBodyBytes)
  return [
    { path: '/v1/models', get: listModels(state) },
    { path: '/v1/models/*id', name: '/v1/models/{id}', get: getModel(state) },
    ...protocols.flatMap((protocol) => protocolRoutes(state, protocol, body)),
  ]
}

/** Puts the app together. It answers at once; while the model is a pending promise, requests get 503 `model_loading`. */
export function createApp(model: ServedModel | Promise<ServedModel>, config: Config, options: AppOptions = {}): App {
  const { logger = silentLogger, progress = () => undefined } = options
  const state = new ServerState(model, config, logger, progress)
  const metrics = new Metrics(state)
  const open = publicRoutes(state)
  const watched: Route = { path: '/metrics', get: metricsText(metrics) }
  const api = apiRoutes(state)
  const app = express()
  app.disable('x-powered-by').disable('etag').enable('case sensitive routing')

  const lookup = pathLookup([...open, watched, ...api])
  app.use(requestId, observe(logger, metrics, lookup), cors(config, lookup), browserGuard(config))
  for (const route of open) mount(app, route)
  app.use(auth(config.apiKey, lookup))
  mount(app, watched)
  app.use((_req, _res, next) => {
    if (state.draining) throw shuttingDown()
    next()
  })
  app.use((req, res, next) => (req.path.includes('//') ? notFound(req, res, next) : next()))
  for (const route of api) mount(app, route)
  app.use(notFound)
  app.use(errorHandler(logger, lookup))
  return { app, state, lookup }
}

/**
 * The Express app of the OpenAI API over a model, for programs that listen themselves or mount it in their own app.
 *
 * @param model a loaded model, or the promise of one: the app answers `/health` while it loads.
 * @param settings see {@link Config}; what is left out has its default. The environment is not read.
 */
export function createServer(
  model: ServedModel | Promise<ServedModel>,
  settings: NonNullable<ConfigSources['values']> = {},
  options: AppOptions = {},
): Express {
  const given = Object(model) as Partial<ServedModel & Promise<ServedModel>>
  if (typeof given.then !== 'function' && typeof given.runChat !== 'function') {
    const message = '`model` must be a loaded model or the promise of one'
    throw createError('INVALID_ARGUMENT', message, { param: 'model' })
  }
  return createApp(model, createConfig({ values: settings }), options).app
}
