/** The page at `/docs`: the server's own OpenAPI document, to read and to try. It knows as much of OpenAPI as that uses. */
import { button, byId, copyButton, h } from './dom.js'

type Schema = boolean | SchemaObject
interface SchemaObject {
  $ref?: string
  type?: string | string[]
  description?: string
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  anyOf?: Schema[]
  allOf?: Schema[]
  enum?: unknown[]
  const?: unknown
  default?: unknown
  examples?: unknown[]
  [limit: string]: unknown
}
interface Media {
  schema?: Schema
  examples?: Record<string, { summary?: string; value: unknown }>
  'x-event-schema'?: Schema
}
interface Answer {
  $ref?: string
  description?: string
  headers?: Record<string, { description?: string }>
  content?: Record<string, Media>
}
interface Parameter {
  name: string
  description?: string
  example?: string
}
interface Operation {
  operationId: string
  tags: string[]
  summary: string
  description?: string
  security?: unknown[]
  parameters?: Parameter[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, Answer>
}
interface ApiDocument {
  info: { title: string; version: string; description: string }
  servers: [{ url: string }]
  security: unknown[]
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, SchemaObject>; responses: Record<string, Answer> }
}

/** The bearer token, kept for as long as the page is open. */
let apiKey = ''

const LIMITS: Record<string, string> = {
  minimum: 'at least',
  maximum: 'at most',
  exclusiveMinimum: 'above',
  minLength: 'characters at least',
  maxLength: 'characters at most',
  minItems: 'entries at least',
  maxItems: 'entries at most',
}

/** A view of one document. */
class DocumentView {
  constructor(private readonly document: ApiDocument) {}

  private schema(schema: Schema): { name?: string; schema: SchemaObject } {
    if (typeof schema === 'boolean') return { schema: schema ? {} : { description: 'Refused.' } }
    if (schema.$ref === undefined) return { schema }
    const name = schema.$ref.split('/').pop() ?? ''
    return { name, schema: this.document.components.schemas[name] ?? {} }
  }

  /** `text or list of text parts`, in a word or two. */
  private typeName(schema: Schema): string {
    const { name, schema: own } = this.schema(schema)
    if (own.const !== undefined) return JSON.stringify(own.const)
    if (own.enum !== undefined) return own.enum.map((value) => JSON.stringify(value)).join(' | ')
    if (own.type === undefined && own.anyOf !== undefined) return own.anyOf.map((one) => this.typeName(one)).join(' | ')
    const types = [own.type ?? 'any'].flat()
    return types
      .map((type) => (type === 'array' && own.items !== undefined ? `list of ${this.typeName(own.items)}` : type))
      .map((type) => (type === 'object' && name !== undefined ? name : type))
      .join(' | ')
  }

  private limits(schema: SchemaObject): string {
    const words = Object.entries(LIMITS).flatMap(([key, word]) =>
      schema[key] === undefined ? [] : [`${word} ${JSON.stringify(schema[key])}`],
    )
    if (schema.default !== undefined) words.push(`default ${JSON.stringify(schema.default)}`)
    return words.join(', ')
  }

  /** The fields of a schema, those of its parts folded below them. */
  private fields(schema: Schema, seen: readonly SchemaObject[] = []): HTMLElement[] {
    const { schema: own } = this.schema(schema)
    if (seen.includes(own)) return []
    const inside = [...seen, own]
    const parts = [...(own.allOf ?? []), ...(own.anyOf ?? [])].flatMap((part) => this.fields(part, inside))
    if (own.items !== undefined) parts.push(...this.fields(own.items, inside))
    const entries = Object.entries(own.properties ?? {})
    if (entries.length === 0) return parts
    const rows = entries.map(([name, property]) => {
      const { schema: field } = this.schema(property)
      const below = this.fields(property, inside)
      const limits = this.limits(field)
      return h(
        'li',
        {},
        h('code', {}, name),
        ' ',
        h('span', { class: 'soft' }, this.typeName(property), own.required?.includes(name) ? ', required' : ''),
        h('p', {}, field.description ?? ''),
        limits !== '' && h('p', { class: 'soft' }, limits),
        field.examples !== undefined &&
          h('p', { class: 'soft' }, 'Example: ', h('code', {}, JSON.stringify(field.examples[0]))),
        below.length > 0 && h('details', {}, h('summary', {}, `Fields of ${name}`), ...below),
      )
    })
    return [h('ul', { class: 'fields' }, ...rows), ...parts]
  }

  private body(type: string, media: Media): HTMLElement[] {
    const example = Object.values(media.examples ?? {})[0]
    const shown = media['x-event-schema'] ?? media.schema ?? true
    const { schema } = this.schema(media.schema ?? true)
    return [
      h('p', {}, h('code', {}, type), ' ', h('span', { class: 'soft' }, this.typeName(shown))),
      ...(schema.description === undefined ? [] : [h('p', {}, schema.description)]),
      ...this.fields(shown),
      ...(example === undefined
        ? []
        : [h('pre', { tabindex: '0' }, typeof example.value === 'string' ? example.value : pretty(example.value))]),
    ]
  }

  private answer(status: string, given: Answer): HTMLElement {
    const name = given.$ref?.split('/').pop()
    const answer = name === undefined ? given : (this.document.components.responses[name] ?? {})
    const headers = Object.entries(answer.headers ?? {}).map(([header, { description = '' }]) =>
      h('li', {}, h('code', {}, header), ` ${description}`),
    )
    const codes = Object.entries(answer.content ?? {}).flatMap(([, { examples = {} }]) => Object.keys(examples))
    return h(
      'details',
      {},
      h('summary', {}, h('code', {}, status), ` ${answer.description ?? ''}`),
      status >= '400' && codes.length > 0 && h('p', { class: 'soft' }, `Codes: ${codes.join(', ')}`),
      ...Object.entries(answer.content ?? {}).flatMap(([type, media]) => this.body(type, media)),
      headers.length > 0 && h('ul', { class: 'fields', 'aria-label': 'Headers' }, ...headers),
    )
  }

  /** A form that sends the request for real. */
  private trial(method: string, path: string, operation: Operation): HTMLElement {
    const examples = Object.entries(operation.requestBody?.content['application/json']?.examples ?? {})
    const inputs = (operation.parameters ?? []).map(({ name, example, description }) => ({
      name,
      input: h('input', { value: example ?? '', 'aria-label': `${name}: ${description ?? ''}` }),
    }))
    const text = h('textarea', { rows: 10, spellcheck: 'false', 'aria-label': `Body of ${operation.summary}` })
    const choice = h(
      'select',
      { 'aria-label': `Example for ${operation.summary}`, onchange: () => fill() },
      ...examples.map(([name, { summary }]) => h('option', { value: name }, summary ?? name)),
    )
    const fill = (): void => {
      text.value = pretty(examples.find(([name]) => name === choice.value)?.[1].value)
    }
    if (examples.length > 0) fill()
    const status = h('p', { class: 'soft', role: 'status' })
    const output = h('pre', { hidden: true, tabindex: '0', 'aria-label': `Answer to ${operation.summary}` })
    let running: AbortController | undefined
    const stop = button('Stop', () => running?.abort(), { hidden: true })
    const send = async (): Promise<void> => {
      running?.abort()
      const mine = (running = new AbortController())
      stop.hidden = output.hidden = false
      output.textContent = ''
      status.textContent = 'Sent.'
      try {
        const base = this.document.servers[0].url.replace(/\/$/, '')
        const target = inputs.reduce(
          (url, { name, input }) => url.replace(`{${name}}`, encodeURIComponent(input.value)),
          path,
        )
        const response = await fetch(base + target, {
          method: method.toUpperCase(),
          headers: {
            ...(apiKey === '' ? {} : { authorization: `Bearer ${apiKey}` }),
            ...(examples.length === 0 ? {} : { 'content-type': 'application/json' }),
          },
          ...(examples.length === 0 ? {} : { body: text.value }),
          signal: mine.signal,
        })
        const id = response.headers.get('x-request-id')
        status.textContent = `${response.status} ${response.headers.get('content-type') ?? ''}; request ${id ?? ''}`
        await show(response, output)
      } catch (error) {
        status.textContent = mine.signal.aborted ? 'Stopped.' : `No answer: ${String(error)}`
      } finally {
        if (running === mine) stop.hidden = true
      }
    }
    const curl = (): string => {
      const url = new URL(this.document.servers[0].url.replace(/\/$/, '') + path, location.href).href
      const key = this.document.security.length > 0 ? " -H 'Authorization: Bearer KEY'" : ''
      const quoted = text.value.replaceAll("'", "'\\''")
      return examples.length === 0 ? `curl${key} '${url}'` : `curl${key} '${url}' -d '${quoted}'`
    }
    return h(
      'div',
      {},
      h('h4', {}, 'Try it'),
      examples.length > 0 && h('div', { class: 'row' }, choice),
      ...inputs.map(({ name, input }) => h('div', { class: 'row' }, h('code', {}, name), input)),
      examples.length > 0 && text,
      h(
        'div',
        { class: 'row' },
        button('Send', () => void send(), { class: 'primary' }),
        stop,
        copyButton(curl, 'Copy as curl'),
      ),
      status,
      output,
    )
  }

  private operation(method: string, path: string, operation: Operation): HTMLElement {
    const media = operation.requestBody?.content['application/json']
    const open = operation.security?.length === 0 || this.document.security.length === 0
    return h(
      'section',
      { id: operation.operationId, 'aria-label': operation.summary },
      h('h3', {}, operation.summary),
      h('p', {}, h('span', { class: 'method' }, method.toUpperCase()), ' ', h('code', {}, path)),
      operation.description !== undefined && h('p', {}, operation.description),
      h('p', { class: 'soft' }, open ? 'Needs no key.' : 'Needs the key.'),
      media !== undefined && h('h4', {}, 'Body'),
      ...(media === undefined ? [] : this.fields(media.schema ?? true)),
      h('h4', {}, 'Answers'),
      ...Object.entries(operation.responses).map(([status, answer]) => this.answer(status, answer)),
      this.trial(method, path, operation),
    )
  }

  render(navigation: HTMLElement, main: HTMLElement): void {
    const { info, tags, paths, security } = this.document
    const all = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
    )
    const key = h('input', { type: 'password', autocomplete: 'off', 'aria-label': 'API key', placeholder: 'API key' })
    key.addEventListener('input', () => (apiKey = key.value))
    navigation.replaceChildren(h('a', { href: './' }, 'Chat'), h('a', { href: 'openapi.json' }, 'openapi.json'))
    main.replaceChildren(
      h('h1', {}, `${info.title} ${info.version}`),
      h('p', {}, info.description),
      h('div', { class: 'row' }, security.length > 0 && key),
    )
    for (const { name, description } of tags) {
      const own = all.filter(({ operation }) => operation.tags.includes(name))
      const links = own.map(({ path, operation }) =>
        h('li', {}, h('a', { href: `#${operation.operationId}`, title: operation.summary }, path)),
      )
      navigation.append(h('h2', {}, name), h('ul', {}, ...links))
      main.append(h('h2', {}, name), h('p', { class: 'soft' }, description))
      main.append(...own.map(({ path, method, operation }) => this.operation(method, path, operation)))
    }
  }
}

function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2) ?? ''
}

/** Writes an answer as it comes; JSON is indented when it is whole. */
async function show(response: Response, output: HTMLElement): Promise<void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const next = await reader?.read()
    if (next === undefined || next.done) break
    output.append(next.value)
  }
  if (!response.headers.get('content-type')?.startsWith('application/json')) return
  output.textContent = pretty(JSON.parse(output.textContent ?? ''))
}

try {
  const response = await fetch('openapi.json')
  if (!response.ok) throw new Error(`HTTP ${response.status}`)
  new DocumentView((await response.json()) as ApiDocument).render(byId('routes'), byId('main'))
  if (location.hash !== '') document.getElementById(location.hash.slice(1))?.scrollIntoView()
} catch (error) {
  byId('main').replaceChildren(
    h('p', { class: 'problem', role: 'alert' }, `The document could not be read: ${String(error)}`),
  )
}
