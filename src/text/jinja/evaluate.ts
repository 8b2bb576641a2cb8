import { Float } from '../json.js'
import { Str } from '../str.js'
import type { CallBlockNode, CallNode, ForNode, MemberNode, Node, Parameter, SetNode, SliceNode } from './ast.js'
import { characters, filters, iterate, member, tests } from './filters.js'
import { checkLength, method } from './methods.js'
import { binary, negative } from './operators.js'
import { display } from './print.js'
import {
  Dict,
  Fn,
  isList,
  Namespace,
  TemplateError,
  toIndex,
  truthy,
  typeName,
  type Kwargs,
  type Value,
} from './values.js'

/** Nodes that one rendering may visit, and macro calls it may nest: templates come from outside and may not hang. */
const MAX_STEPS = 20_000_000
/** What a turn of a loop costs beside the nodes in it. */
const TURN_STEPS = 20
const MAX_CALLS = 200

/** Names in sight: those of the block, then those around it. */
export class Scope {
  private readonly names = new Map<string, Value>()

  constructor(private readonly parent?: Scope) {}

  set(name: string, value: Value): void {
    this.names.set(name, value)
  }

  get(name: string): Value {
    return this.names.has(name) ? this.names.get(name) : this.parent?.get(name)
  }
}

/** How a block ended: at its end, or by a `break` or `continue` meant for the loop around it. */
type Ending = 'done' | 'break' | 'continue'

const noKwargs: Kwargs = new Map()

/** One rendering of a template. */
export class Evaluation {
  private steps = 0
  private calls = 0
  private readonly literals: WeakMap<Node, Str>

  /** `literals` keeps the strings of the template's source between renderings. */
  constructor(literals: WeakMap<Node, Str>) {
    this.literals = literals
  }

  /** The text of a block with its own output. */
  capture(nodes: readonly Node[], scope: Scope): Str {
    const out: Str[] = []
    this.block(nodes, scope, out)
    checkLength(out.reduce((sum, part) => sum + part.length, 0))
    return Str.concat(out)
  }

  private block(nodes: readonly Node[], scope: Scope, out: Str[]): Ending {
    for (const node of nodes) {
      const ending = this.statement(node, scope, out)
      if (ending !== 'done') return ending
    }
    return 'done'
  }

  private statement(node: Node, scope: Scope, out: Str[]): Ending {
    switch (node.type) {
      case 'Comment':
        return 'done'
      case 'Break':
        return 'break'
      case 'Continue':
        return 'continue'
      case 'If':
        return this.block(truthy(this.value(node.test, scope)) ? node.body : node.alternate, scope, out)
      case 'For':
        this.loop(node, scope, out)
        return 'done'
      case 'Set':
        this.assign(node, scope)
        return 'done'
      case 'Macro':
        scope.set(node.name.value, this.macro(node.name.value, node.args, node.body, scope))
        return 'done'
      case 'CallStatement':
        out.push(display(this.callBlock(node, scope)))
        return 'done'
      case 'FilterStatement':
        out.push(display(this.filter(node.filter, this.capture(node.body, new Scope(scope)), scope)))
        return 'done'
      default:
        out.push(display(this.value(node, scope)))
        return 'done'
    }
  }

  private loop(node: ForNode, outer: Scope, out: Str[]): void {
    const { iterable } = node
    const select = iterable.type === 'SelectExpression' ? iterable : undefined
    let items = iterate(this.value(select?.lhs ?? iterable, outer))
    if (select !== undefined) {
      items = items.filter((item) => {
        const scope = new Scope(outer)
        this.unpack(node.loopvar, item, scope)
        return truthy(this.value(select.test, scope))
      })
    }
    for (let i = 0; i < items.length; i++) {
      this.count(TURN_STEPS)
      const scope = new Scope(outer)
      scope.set('loop', loopValue(items, i))
      this.unpack(node.loopvar, items[i], scope)
      if (this.block(node.body, scope, out) === 'break') break
    }
    if (items.length === 0) this.block(node.defaultBlock, new Scope(outer), out)
  }

  private assign(node: SetNode, scope: Scope): void {
    this.unpack(
      node.assignee,
      node.value ? this.value(node.value, scope) : this.capture(node.body, new Scope(scope)),
      scope,
    )
  }

  private unpack(target: Node, value: Value, scope: Scope): void {
    if (target.type === 'Identifier') scope.set(target.value, value)
    else if (target.type === 'TupleLiteral') {
      const items = iterate(value)
      if (items.length !== target.value.length) {
        throw new TemplateError(`cannot unpack ${items.length} values into ${target.value.length} names`)
      }
      target.value.forEach((each, i) => this.unpack(each, items[i], scope))
    } else if (target.type === 'MemberExpression' && target.property.type === 'Identifier') {
      const object = this.value(target.object, scope)
      if (!(object instanceof Namespace)) throw new TemplateError('can only set members of a namespace')
      object.map.set(target.property.value, value)
    } else throw new TemplateError('cannot assign to this expression')
  }

  private macro(name: string, parameters: readonly Parameter[], body: readonly Node[], around: Scope): Fn {
    return new Fn(name, (args, kwargs) => {
      if (++this.calls > MAX_CALLS) throw new TemplateError(`macros are nested deeper than ${MAX_CALLS} calls`)
      const scope = new Scope(around)
      parameters.forEach((parameter, i) => {
        const key = parameter.type === 'Identifier' ? parameter.value : parameter.key.value
        const given = i < args.length ? args[i] : kwargs.get(key)
        const useDefault = given === undefined && parameter.type !== 'Identifier'
        scope.set(key, useDefault ? this.value(parameter.value, scope) : given)
      })
      scope.set('varargs', args.slice(parameters.length))
      scope.set('kwargs', new Dict(kwargs))
      const caller = kwargs.get('caller')
      if (caller !== undefined) scope.set('caller', caller)
      const text = this.capture(body, scope)
      this.calls -= 1
      return text
    })
  }

  private callBlock(node: CallBlockNode, scope: Scope): Value {
    const caller = this.macro('caller', node.callerArgs ?? [], node.body, scope)
    const { args, kwargs } = this.arguments(node.call.args, scope)
    return this.call(node.call.callee, args, new Map([...kwargs, ['caller', caller]]), scope)
  }

  private count(steps: number): void {
    this.steps += steps
    if (this.steps > MAX_STEPS) throw new TemplateError('the template takes too many steps')
  }

  private value(node: Node, scope: Scope): Value {
    this.count(1)
    switch (node.type) {
      case 'Identifier':
        return scope.get(node.value)
      case 'StringLiteral': {
        const known = this.literals.get(node)
        if (known !== undefined) return known
        const literal = Str.own(node.value)
        this.literals.set(node, literal)
        return literal
      }
      case 'IntegerLiteral':
        return node.value
      case 'FloatLiteral':
        return new Float(node.value)
      case 'ArrayLiteral':
      case 'TupleLiteral':
        return node.value.map((item) => this.value(item, scope))
      case 'ObjectLiteral':
        return new Dict(
          new Map(
            [...node.value].map(([key, item]) => [display(this.value(key, scope)).text, this.value(item, scope)]),
          ),
        )
      case 'MemberExpression':
        return this.member(node, scope)
      case 'CallExpression': {
        const { args, kwargs } = this.arguments(node.args, scope)
        return this.call(node.callee, args, kwargs, scope)
      }
      case 'FilterExpression':
        return this.filter(node.filter, this.value(node.operand, scope), scope)
      case 'TestExpression': {
        const test = tests.get(node.test.value)
        if (test === undefined) throw new TemplateError(`no test named ${node.test.value}`)
        return test(this.value(node.operand, scope)) !== node.negate
      }
      case 'UnaryExpression': {
        const argument = this.value(node.argument, scope)
        return node.operator.value === 'not' ? !truthy(argument) : negative(node.operator.value, argument)
      }
      case 'BinaryExpression': {
        const left = this.value(node.left, scope)
        if (node.operator.value === 'and') return truthy(left) ? this.value(node.right, scope) : left
        if (node.operator.value === 'or') return truthy(left) ? left : this.value(node.right, scope)
        return binary(node.operator.value, left, this.value(node.right, scope))
      }
      case 'Ternary':
        return this.value(truthy(this.value(node.condition, scope)) ? node.trueExpr : node.falseExpr, scope)
      case 'SelectExpression':
        return truthy(this.value(node.test, scope)) ? this.value(node.lhs, scope) : undefined
      default:
        throw new TemplateError(`${node.type} is not an expression`)
    }
  }

  private member(node: MemberNode, scope: Scope): Value {
    const object = this.value(node.object, scope)
    if (object === undefined) throw new TemplateError(`${describe(node.object)} is undefined`)
    if (node.property.type === 'SliceExpression') return this.slice(object, node.property, scope)
    if (node.computed) {
      const key = this.value(node.property, scope)
      const found = member(object, key)
      return found === undefined && key instanceof Str ? method(object, key.text) : found
    }
    if (node.property.type === 'IntegerLiteral') return member(object, node.property.value)
    if (node.property.type !== 'Identifier') throw new TemplateError('a member needs a name')
    // As in Python, a method of the object comes before a member of the same name.
    return method(object, node.property.value) ?? member(object, Str.data(node.property.value))
  }

  private slice(object: Value, node: SliceNode, scope: Scope): Value {
    const bound = (part: Node | undefined): number | undefined => {
      const value = part && this.value(part, scope)
      return value === undefined || value === null ? undefined : toIndex(value, 'a slice bound')
    }
    const [start, stop, step = 1] = [bound(node.start), bound(node.stop), bound(node.step)]
    if (object instanceof Str) return Str.concat(sliced(characters(object), start, stop, step))
    if (isList(object)) return sliced(object, start, stop, step)
    throw new TemplateError(`cannot slice ${typeName(object)}`)
  }

  private call(callee: Node, args: readonly Value[], kwargs: Kwargs, scope: Scope): Value {
    const fn = this.value(callee, scope)
    if (!(fn instanceof Fn)) throw new TemplateError(`${describe(callee)} is ${typeName(fn)}, not a function`)
    return fn.call(args, kwargs)
  }

  private filter(node: Node, operand: Value, scope: Scope): Value {
    const name = node.type === 'CallExpression' ? node.callee : node
    const filter = name.type === 'Identifier' ? filters.get(name.value) : undefined
    if (filter === undefined) throw new TemplateError(`no filter named ${describe(name)}`)
    if (node.type !== 'CallExpression') return filter(operand, [], noKwargs)
    const { args, kwargs } = this.arguments(node.args, scope)
    return filter(operand, args, kwargs)
  }

  private arguments(nodes: CallNode['args'], scope: Scope): { args: Value[]; kwargs: Map<string, Value> } {
    const args: Value[] = []
    const kwargs = new Map<string, Value>()
    for (const node of nodes) {
      if (node.type === 'KeywordArgumentExpression') kwargs.set(node.key.value, this.value(node.value, scope))
      else if (node.type === 'SpreadExpression') args.push(...iterate(this.value(node.argument, scope)))
      else if (node.type === 'KeywordSpreadExpression') {
        const more = this.value(node.argument, scope)
        if (!(more instanceof Dict)) throw new TemplateError(`cannot spread ${typeName(more)} as keyword arguments`)
        for (const [key, value] of more.map) kwargs.set(key, value)
      } else args.push(this.value(node, scope))
    }
    return { args, kwargs }
  }
}

/** Python's slice of a list. */
function sliced<T>(items: readonly T[], start: number | undefined, stop: number | undefined, step: number): T[] {
  if (step === 0) throw new TemplateError('slice step cannot be zero')
  const clamp = (bound: number, low: number, high: number): number =>
    Math.min(Math.max(bound < 0 ? bound + items.length : bound, low), high)
  const out: T[] = []
  if (step > 0) {
    const end = clamp(stop ?? items.length, 0, items.length)
    for (let i = clamp(start ?? 0, 0, items.length); i < end; i += step) out.push(items[i]!)
  } else {
    const end = stop === undefined ? -1 : clamp(stop, -1, items.length - 1)
    for (let i = clamp(start ?? items.length - 1, -1, items.length - 1); i > end; i += step) out.push(items[i]!)
  }
  return out
}

/** The variable `loop` of one turn. */
function loopValue(items: readonly Value[], i: number): Dict {
  return new Dict(
    new Map<string, Value>([
      ['index', i + 1],
      ['index0', i],
      ['revindex', items.length - i],
      ['revindex0', items.length - i - 1],
      ['first', i === 0],
      ['last', i === items.length - 1],
      ['length', items.length],
      ['previtem', items[i - 1]],
      ['nextitem', items[i + 1]],
      ['cycle', new Fn('cycle', (args) => args[i % args.length])],
    ]),
  )
}

/** An expression's name for a message. */
function describe(node: Node): string {
  if (node.type === 'Identifier') return `'${node.value}'`
  if (node.type !== 'MemberExpression') return 'a value'
  return node.property.type === 'Identifier' ? `'${node.property.value}'` : `a member of ${describe(node.object)}`
}
