import { read, walk, type Node } from './jinja/ast.js'
import { Evaluation, Scope } from './jinja/evaluate.js'
import { filters, tests } from './jinja/filters.js'
import { globals } from './jinja/globals.js'
import { fromJs, TemplateError } from './jinja/values.js'
import { Str } from './str.js'

export { TemplateError }

const MAX_SOURCE = 1 << 20
/** The reader takes quadratic time over a run of white space. */
const LONG_SPACE = /\s{2000}/

/**
 * A chat template, read once and rendered many times. Renders as Python's jinja2 does in Transformers, and keeps track of
 * which characters of the result the template wrote itself.
 */
export class ChatTemplate {
  private readonly body: readonly Node[]
  private readonly literals = new WeakMap<Node, Str>()

  /** Reads the source; throws a plain error that says what is wrong with it. */
  constructor(source: string) {
    if (source.length > MAX_SOURCE) throw new Error(`longer than ${MAX_SOURCE} characters`)
    if (LONG_SPACE.test(source)) throw new Error('holds a run of more than 2000 white-space characters')
    this.body = read(source)
    for (const node of walk(this.body)) {
      if (node.type === 'TestExpression' && !tests.has(node.test.value)) {
        throw new Error(`no test named '${node.test.value}'`)
      }
      if (node.type !== 'FilterExpression' && node.type !== 'FilterStatement') continue
      const name = node.filter.type === 'CallExpression' ? node.filter.callee : node.filter
      if (name.type !== 'Identifier' || !filters.has(name.value)) {
        throw new Error(`no filter named '${name.type === 'Identifier' ? name.value : name.type}'`)
      }
    }
  }

  /**
   * The rendered text. Strings in `data` are data; those in `own` count as the template's own. Throws {@link TemplateError}
   * when the template raises, or cannot make sense of what it is given.
   */
  render(data: ReadonlyMap<string, unknown>, own: ReadonlyMap<string, string> = new Map()): Str {
    const scope = new Scope()
    for (const [name, value] of globals) scope.set(name, value)
    for (const [name, value] of own) scope.set(name, Str.own(value))
    try {
      for (const [name, value] of data) scope.set(name, fromJs(value))
      return new Evaluation(this.literals).capture(this.body, scope)
    } catch (error) {
      if (error instanceof TemplateError) throw error
      // What JavaScript itself refuses: a text or a list that is too long, a nesting that is too deep.
      throw new TemplateError(error instanceof Error ? error.message : String(error), { cause: error })
    }
  }
}
