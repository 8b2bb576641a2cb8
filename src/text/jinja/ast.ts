import * as jinja from '@huggingface/jinja'

// The package's own declarations do not resolve under Node's module rules, so what is used of it is declared here.
const { parse, tokenize } = jinja as unknown as {
  tokenize: (source: string, options: { lstrip_blocks: boolean; trim_blocks: boolean }) => unknown
  parse: (tokens: unknown) => { readonly body: readonly Node[] }
}

/** The nodes that `@huggingface/jinja` parses a template into; only its reader is used, the evaluation is ours. */
export type Node =
  | { readonly type: 'If'; readonly test: Node; readonly body: readonly Node[]; readonly alternate: readonly Node[] }
  | ForNode
  | { readonly type: 'Break' | 'Continue' | 'Comment' }
  | SetNode
  | MacroNode
  | CallBlockNode
  | { readonly type: 'FilterStatement'; readonly filter: IdentifierNode | CallNode; readonly body: readonly Node[] }
  | IdentifierNode
  | CallNode
  | MemberNode
  | { readonly type: 'IntegerLiteral' | 'FloatLiteral'; readonly value: number }
  | StringNode
  | { readonly type: 'ArrayLiteral'; readonly value: readonly Node[] }
  | TupleNode
  | { readonly type: 'ObjectLiteral'; readonly value: ReadonlyMap<Node, Node> }
  | BinaryNode
  | UnaryNode
  | FilterNode
  | TestNode
  | SelectNode
  | { readonly type: 'Ternary'; readonly condition: Node; readonly trueExpr: Node; readonly falseExpr: Node }
  | SliceNode
  | KeywordNode
  | { readonly type: 'SpreadExpression' | 'KeywordSpreadExpression'; readonly argument: Node }

export interface IdentifierNode {
  readonly type: 'Identifier'
  readonly value: string
}
export interface StringNode {
  readonly type: 'StringLiteral'
  readonly value: string
}
export interface TupleNode {
  readonly type: 'TupleLiteral'
  readonly value: readonly Node[]
}
export interface CallNode {
  readonly type: 'CallExpression'
  readonly callee: Node
  readonly args: readonly Node[]
}
export interface KeywordNode {
  readonly type: 'KeywordArgumentExpression'
  readonly key: IdentifierNode
  readonly value: Node
}
export interface MemberNode {
  readonly type: 'MemberExpression'
  readonly object: Node
  readonly property: Node
  readonly computed: boolean
}
export interface SliceNode {
  readonly type: 'SliceExpression'
  readonly start?: Node
  readonly stop?: Node
  readonly step?: Node
}
export interface BinaryNode {
  readonly type: 'BinaryExpression'
  readonly operator: { readonly value: string }
  readonly left: Node
  readonly right: Node
}
export interface UnaryNode {
  readonly type: 'UnaryExpression'
  readonly operator: { readonly value: string }
  readonly argument: Node
}
export interface FilterNode {
  readonly type: 'FilterExpression'
  readonly operand: Node
  readonly filter: IdentifierNode | CallNode
}
export interface TestNode {
  readonly type: 'TestExpression'
  readonly operand: Node
  readonly negate: boolean
  readonly test: IdentifierNode
}
/** `a if b` without `else`, and the filter of a for loop. */
export interface SelectNode {
  readonly type: 'SelectExpression'
  readonly lhs: Node
  readonly test: Node
}
export interface ForNode {
  readonly type: 'For'
  readonly loopvar: IdentifierNode | TupleNode
  readonly iterable: Node
  readonly body: readonly Node[]
  readonly defaultBlock: readonly Node[]
}
export interface SetNode {
  readonly type: 'Set'
  readonly assignee: Node
  readonly value: Node | null
  readonly body: readonly Node[]
}
export type Parameter = IdentifierNode | KeywordNode
export interface MacroNode {
  readonly type: 'Macro'
  readonly name: IdentifierNode
  readonly args: readonly Parameter[]
  readonly body: readonly Node[]
}
export interface CallBlockNode {
  readonly type: 'CallStatement'
  readonly call: CallNode
  readonly callerArgs: readonly Parameter[] | null
  readonly body: readonly Node[]
}

/** Reads a template's source with the white-space rules of Transformers. Throws what the reader throws. */
export function read(source: string): readonly Node[] {
  return parse(tokenize(source, { lstrip_blocks: true, trim_blocks: true })).body
}

/** Every node of a tree, in no particular order. */
export function* walk(root: unknown): Generator<Node> {
  const stack: unknown[] = [root]
  while (stack.length > 0) {
    const item = stack.pop()
    if (typeof item !== 'object' || item === null) continue
    if ('type' in item) yield item as Node
    const children = item instanceof Map ? [...item.keys(), ...item.values()] : Object.values(item)
    for (const child of children) stack.push(child)
  }
}
