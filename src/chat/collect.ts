import type { ChatEvent, ChatFinish, ChatPart, Usage } from './types.js'

/** A whole answer. */
export interface Answer {
  /** In the order generated; neighbours of one kind are one part. */
  readonly parts: readonly ChatPart[]
  readonly reason: ChatFinish['reason']
  /** The stop string that ended it, if one did. */
  readonly stop?: string
  readonly usage: Usage
}

/** Adds the parts of an answer up. A protocol's stream may keep one to know at its end what it has sent. */
export class PartList {
  readonly #parts: { type: ChatPart['type']; texts: string[]; part: ChatPart }[] = []

  push(part: ChatPart): void {
    const last = this.#parts.at(-1)
    if (part.type !== 'tool_call' && last?.type === part.type) last.texts.push(part.text)
    else this.#parts.push({ type: part.type, texts: part.type === 'tool_call' ? [] : [part.text], part })
  }

  get parts(): ChatPart[] {
    return this.#parts.map(({ part, texts }) => (part.type === 'tool_call' ? part : { ...part, text: texts.join('') }))
  }
}

/** Reads an answer to its end. */
export async function collectAnswer(events: AsyncIterable<ChatEvent>): Promise<Answer> {
  const list = new PartList()
  for await (const event of events) {
    if (event.type !== 'finish') {
      list.push(event)
      continue
    }
    const { reason, stop, usage } = event
    return { parts: list.parts, reason, ...(stop === undefined ? {} : { stop }), usage }
  }
  throw new Error('the answer ended without a finish event')
}

/** All text of one kind in an answer. */
export function textOf(answer: Pick<Answer, 'parts'>, type: 'reasoning' | 'content'): string {
  return answer.parts.map((part) => (part.type === type ? part.text : '')).join('')
}
