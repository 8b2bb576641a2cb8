import { protocols } from '../../protocols/index.js'
import type {
  AnswerOperation,
  CountOperation,
  Endpoint,
  OperationText,
  PlainOperation,
  Protocol,
} from '../../protocols/protocol.js'
import type { RequestDefaults } from '../../wire/defaults.js'
import type { ErrorForm } from '../../wire/errors.js'
import type { JsonSchema } from '../../wire/json-schema.js'
import { usageSchema } from '../../wire/openai/answer.js'
import { openAiErrors } from '../../wire/openai/errors.js'
import { tokenIdSchema } from '../../wire/json-schema.js'
import { healthSchema, modelListSchema, modelSchema, unhealthySchema } from './schemas.js'

/** What the document says of this one server. */
export interface DocumentOptions {
  readonly version: string
  /** Path that the app is mounted at. */
  readonly baseUrl: string
  /** Whether requests need a key. */
  readonly secured: boolean
  readonly defaults: RequestDefaults
  /** Number of token ids; unknown until the model is there. */
  readonly vocabSize: number | undefined
}

/** Schemas with a name of their own; wherever one occurs in another, the document has a reference. */
const forms: readonly ErrorForm[] = [...new Set([openAiErrors, ...protocols.map(({ errors }) => errors)])]
const components: Readonly<Record<string, JsonSchema>> = {
  ...(Object.assign({}, ...protocols.map((protocol) => protocol.components)) as Record<string, JsonSchema>),
  Usage: usageSchema,
  Model: modelSchema,
  ModelList: modelListSchema,
  Health: healthSchema,
  Unhealthy: unhealthySchema,
  ...Object.fromEntries(forms.map(({ name, schema }) => [name, schema])),
}
const requests = new Set(
  protocols.flatMap(({ endpoints }) => endpoints.flatMap(({ post }) => (post ? [post.request.schema] : []))),
)
const names = new Map(Object.entries(components).map(([name, schema]) => [schema, name]))

/** The schema as it validates, with references for named parts and without this server's own keywords. */
function publish(value: unknown, inside: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => publish(item, inside))
  if (typeof value !== 'object' || value === null) return value
  const name = names.get(value as JsonSchema)
  if (name !== undefined && value !== inside) return reference(name)
  const entries = Object.entries(value).filter(([keyword]) => keyword !== 'x-error')
  return Object.fromEntries(entries.map(([keyword, part]) => [keyword, publish(part, inside)]))
}

function reference(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` }
}

/** Puts what is this server's own into a schema: defaults of requests, ids of the model. */
function localise(schema: JsonSchema, { defaults, vocabSize }: DocumentOptions): JsonSchema {
  if (schema === tokenIdSchema && vocabSize !== undefined) return { ...schema, maximum: vocabSize - 1 }
  if (!requests.has(schema)) return schema
  const values: Record<string, unknown> = {
    model: defaults.modelId,
    max_tokens: Math.min(defaults.maxNewTokens, defaults.maxNewTokensLimit),
    max_output_tokens: Math.min(defaults.maxNewTokens, defaults.maxNewTokensLimit),
    temperature: defaults.temperature,
    top_p: defaults.topP,
    top_k: defaults.topK,
    include_reasoning: defaults.includeReasoning,
  }
  const properties = Object.entries(schema['properties'] as Record<string, JsonSchema>).map(([name, property]) => {
    const own = name === 'model' ? { ...property, examples: [defaults.modelId] } : property
    return [name, name in values ? { ...own, default: values[name] } : own]
  })
  return { ...schema, properties: Object.fromEntries(properties) as Record<string, JsonSchema> }
}

const REQUEST_ID = {
  description: "The request's X-Request-Id where it is harmless, else a fresh one; it is in the server's log too.",
  schema: { type: 'string' },
}

/** Status, what it means, headers of its own. */
const errors: Readonly<Record<string, readonly [description: string, headers?: Record<string, string>]>> = {
  '400': ['A field is missing, mistyped, out of range or not supported, or the prompt is too long.'],
  '401': ['The server asks for a key, and it is missing or wrong.', { 'WWW-Authenticate': 'Always Bearer.' }],
  '403': ['A foreign web page, or a foreign name for a server on loopback.'],
  '404': ['An unknown path; or, under MAPLE_STRICT_MODEL, another model.'],
  '405': ['The path has other methods.', { Allow: 'Those it has.' }],
  '413': ['The body is larger than MAPLE_MAX_BODY_BYTES, inflated.'],
  '415': ['A charset or a content coding that is not supported.'],
  '500': ['Generation failed inside the model.'],
  '503': [
    'The model is loading, the queue is full, the wait was too long, or the server is stopping.',
    { 'Retry-After': 'Seconds; for engine_overloaded and shutting_down.' },
  ],
}

function errorAnswers(statuses: readonly string[], form: ErrorForm = openAiErrors): Record<string, unknown> {
  return Object.fromEntries(
    statuses.map((status) => [status, { $ref: `#/components/responses/${form.name}${status}` }]),
  )
}

function errorComponents(): Record<string, unknown> {
  const all = forms.flatMap((form) => Object.keys(form.examples).map((status) => ({ form, status })))
  return Object.fromEntries(
    all.map(({ form, status }) => {
      const [description, headers = {}] = errors[status] ?? ['An error.']
      const shown: Record<string, unknown> = { 'X-Request-Id': REQUEST_ID }
      for (const [name, text] of Object.entries(headers))
        shown[name] = { description: text, schema: { type: 'string' } }
      const content = { 'application/json': { schema: reference(form.name), examples: form.examples[status] } }
      return [`${form.name}${status}`, { description, headers: shown, content }]
    }),
  )
}

function ok(description: string, content: Record<string, unknown>): Record<string, unknown> {
  return { description, headers: { 'X-Request-Id': REQUEST_ID }, content }
}

const json = (name: string) => ({ 'application/json': { schema: reference(name) } })

const COMMON = ['401', '403', '405']
const GENERATING = ['400', '401', '403', '404', '405', '413', '415', '500', '503']
const open = { security: [] }

/** What the document says of a method beside its answers. */
function head({ operationId, summary, description }: OperationText): Record<string, unknown> {
  return { tags: ['Answers'], operationId, summary, ...(description === undefined ? {} : { description }) }
}

function post(operation: AnswerOperation | CountOperation, form: ErrorForm, options: DocumentOptions): object {
  const { request, examples, whole } = operation
  const content = { 'application/json': { schema: request.schema, examples: examples(options.defaults) } }
  const good =
    operation.kind === 'count'
      ? ok('The count.', { 'application/json': { schema: whole } })
      : ok('The answer: one object, or with stream: true a stream of events.', {
          'application/json': { schema: whole },
          'text/event-stream': {
            // Before version 3.2 the schema of a stream is that of each event.
            schema: operation.chunks.frames,
            'x-event-schema': operation.chunks.schema,
            examples: { stream: { summary: 'A short answer', value: operation.chunks.example } },
          },
        })
  const statuses = GENERATING.filter((status) => status in form.examples)
  return {
    ...head(operation),
    requestBody: { required: true, content },
    responses: { '200': good, ...errorAnswers(statuses, form) },
  }
}

function plain(operation: PlainOperation, form: ErrorForm, path: string): object {
  const { whole } = operation
  const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    description: 'As an answer gave it.',
    schema: { type: 'string', minLength: 1 },
  }))
  return {
    ...head(operation),
    ...(parameters.length === 0 ? {} : { parameters }),
    responses: {
      ...(whole === undefined ? {} : { '200': ok('The answer.', { 'application/json': { schema: whole } }) }),
      ...errorAnswers([...COMMON, '404'], form),
    },
  }
}

function endpointPath({ errors }: Protocol, endpoint: Endpoint, options: DocumentOptions): object {
  return {
    ...(endpoint.get ? { get: plain(endpoint.get, errors, endpoint.path) } : {}),
    ...(endpoint.post ? { post: post(endpoint.post, errors, options) } : {}),
    ...(endpoint.delete ? { delete: plain(endpoint.delete, errors, endpoint.path) } : {}),
  }
}

function paths(options: DocumentOptions): Record<string, unknown> {
  const { defaults } = options
  const get = (tag: string, operationId: string, summary: string, more: object) => ({
    get: { tags: [tag], operationId, summary, ...more },
  })
  const page = (description: string) => ok(description, { 'text/html': { schema: { type: 'string' } } })
  const answers = protocols.flatMap((protocol) =>
    protocol.endpoints.map((endpoint) => [endpoint.path, endpointPath(protocol, endpoint, options)]),
  )
  return {
    ...(Object.fromEntries(answers) as Record<string, unknown>),
    '/v1/models': get('Models', 'listModels', 'List the one model', {
      responses: { '200': ok('The list.', json('ModelList')), ...errorAnswers([...COMMON, '503']) },
    }),
    '/v1/models/{id}': get('Models', 'getModel', 'The one model', {
      description: 'Whatever the id, unless the server is strict. Ids may hold slashes, encoded or not.',
      parameters: [
        {
          name: 'id',
          in: 'path',
          required: true,
          description: 'Id of the model.',
          schema: { type: 'string', minLength: 1 },
          example: defaults.modelId,
        },
      ],
      responses: { '200': ok('The model.', json('Model')), ...errorAnswers(['400', ...COMMON, '404', '503']) },
    }),
    '/health': get('Operation', 'health', 'What is served, how, and how busy it is', {
      ...open,
      description: 'Needs no key, and answers while the model loads and while the queue is full.',
      responses: {
        '200': ok('The model is there (ok) or on its way (loading).', json('Health')),
        ...errorAnswers(['403', '405']),
        '503': ok('Loading failed (error), or the server is stopping (shutting_down).', json('Unhealthy')),
      },
    }),
    '/metrics': get('Operation', 'metrics', 'Numbers for Prometheus', {
      description: 'All names begin with maple_. deploy/grafana holds a dashboard for them.',
      responses: {
        '200': ok('The text format of Prometheus.', { 'text/plain': { schema: { type: 'string' } } }),
        ...errorAnswers(COMMON),
      },
    }),
    '/openapi.json': get('Pages', 'document', 'This document', {
      ...open,
      responses: {
        '200': ok('OpenAPI 3.1.', { 'application/json': { schema: { type: 'object' } } }),
        ...errorAnswers(['403', '405']),
      },
    }),
    '/docs': get('Pages', 'docs', 'This document, for browsers', {
      ...open,
      responses: { '200': page('A page that loads nothing from elsewhere.'), ...errorAnswers(['403', '404', '405']) },
    }),
    '/': get('Pages', 'chat', 'The chat page', {
      ...open,
      responses: { '200': page('A page that loads nothing from elsewhere.'), ...errorAnswers(['403', '404', '405']) },
    }),
  }
}

/**
 * The OpenAPI 3.1 document of the API. Request schemas are those that validate: what is accepted and what is documented
 * cannot differ.
 */
export function createDocument(options: DocumentOptions): Record<string, unknown> {
  const schemas = Object.entries(components).map(([name, schema]) => {
    const shown = localise(schema, options)
    return [name, publish(shown, shown)]
  })
  return {
    openapi: '3.1.0',
    info: {
      title: 'maple-cpu',
      version: options.version,
      description:
        "DeepGrove's Maple language model behind the OpenAI API. Every GET answers HEAD too, and every path OPTIONS. " +
        'null stands for an absent field wherever a field is optional.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: options.baseUrl === '' ? '/' : options.baseUrl }],
    security: options.secured ? [{ key: [] }] : [],
    tags: [
      { name: 'Answers', description: 'What the model is for.' },
      { name: 'Models', description: 'The one model.' },
      { name: 'Operation', description: 'For those who run the server.' },
      { name: 'Pages', description: 'For people.' },
    ],
    paths: publish(paths(options), undefined),
    components: {
      schemas: Object.fromEntries(schemas) as Record<string, unknown>,
      responses: errorComponents(),
      securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'MAPLE_API_KEY.' } },
    },
  }
}
