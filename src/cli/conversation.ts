import type { ChatMessage } from '../chat/types.js'
import type { PartialAnswer } from './answer.js'

/** What a line typed into a chat comes to. */
export type Turn =
  | { readonly kind: 'ask' }
  | { readonly kind: 'say'; readonly text: string }
  | { readonly kind: 'save'; readonly file: string; readonly text: string }
  | { readonly kind: 'leave' }

const help = `/system TEXT   set the system prompt (without TEXT: show it; "/system -": none)
/reset         forget the conversation, keep the system prompt
/think on|off  let the model reason first, or not
/undo          take back the last question and its answer
/save FILE     write the conversation as JSON, or as Markdown where FILE ends in .md
/exit          leave (so does Ctrl-D); Ctrl-C stops an answer
A line that ends in \\ goes on in the next one. //text sends "/text".`

/** A chat's state: messages, system prompt, settings that commands change. Knows nothing of terminals. */
export class Conversation {
  #messages: ChatMessage[] = []
  #system: string | undefined
  #pending = ''
  thinking: boolean

  constructor(system: string | undefined, thinking: boolean) {
    this.#system = system
    this.thinking = thinking
  }

  /** Everything to put before the model. */
  get messages(): ChatMessage[] {
    return [...(this.#system === undefined ? [] : [{ role: 'system', content: this.#system }]), ...this.#messages]
  }

  /** Whether the next line goes on with an unfinished one. */
  get isContinued(): boolean {
    return this.#pending !== ''
  }

  /** Drops an unfinished message; says whether there was one. */
  dropPending(): boolean {
    const had = this.isContinued
    this.#pending = ''
    return had
  }

  /** Takes a line: a command, a piece of a message, or a message. */
  take(line: string): Turn {
    const continued = this.isContinued
    if (line.endsWith('\\')) {
      this.#pending += `${line.slice(0, -1)}\n`
      return { kind: 'say', text: '' }
    }
    const text = this.#pending + line
    this.#pending = ''
    if (text.trim() === '') return { kind: 'say', text: '' }
    if (!continued && text.startsWith('/') && !text.startsWith('//')) return this.#command(text)
    this.#messages.push({ role: 'user', content: continued ? text : text.replace(/^\/\//, '/') })
    return { kind: 'ask' }
  }

  /** Keeps an answer, or as much of one as there was. */
  answered({ content, reasoning, toolCalls }: PartialAnswer): void {
    if (content === '' && toolCalls.length === 0 && reasoning === '') {
      this.undo()
      return
    }
    this.#messages.push({
      role: 'assistant',
      content,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }),
    })
  }

  /** Takes back the last question, and its answer where there is one; says whether there was one. */
  undo(): boolean {
    const last = this.#messages.findLastIndex((message) => message.role === 'user')
    if (last < 0) return false
    this.#messages.length = last
    return true
  }

  #command(line: string): Turn {
    const [, name = '', argument = ''] = /^\/(\S*)\s*([^]*)$/.exec(line) ?? []
    const rest = argument.trim()
    switch (name.toLowerCase()) {
      case 'system':
        if (rest === '') return say(this.#system ?? 'There is no system prompt.')
        this.#system = rest === '-' ? undefined : rest
        return say(this.#system === undefined ? 'No system prompt from here on.' : 'Set from here on.')
      case 'reset':
        this.#messages = []
        return say('The conversation starts anew.')
      case 'undo':
        return say(this.undo() ? 'Taken back.' : 'There is nothing to take back.')
      case 'think':
        if (rest !== 'on' && rest !== 'off')
          return say(`Reasoning is ${this.thinking ? 'on' : 'off'}; "/think on" and "/think off" change that.`)
        this.thinking = rest === 'on'
        return say(`Reasoning is ${rest}.`)
      case 'save':
        if (rest === '') return say('Name a file: /save chat.json or /save chat.md')
        return {
          kind: 'save',
          file: rest,
          text: rest.toLowerCase().endsWith('.md')
            ? this.#markdown()
            : `${JSON.stringify({ messages: this.messages }, undefined, 2)}\n`,
        }
      case 'exit':
      case 'quit':
        return { kind: 'leave' }
      case 'help':
      case '?':
        return say(help)
      default:
        return say(`There is no command /${name}. /help lists them.`)
    }
  }

  #markdown(): string {
    const title = (role: string): string => `## ${role.charAt(0).toUpperCase()}${role.slice(1)}`
    const blocks = this.messages.map(({ role, content, reasoning_content: reasoning }) => {
      const thought = reasoning ? `> ${reasoning.trim().replaceAll('\n', '\n> ')}\n\n` : ''
      return `${title(role)}\n\n${thought}${typeof content === 'string' ? content.trim() : ''}\n`
    })
    return blocks.join('\n')
  }
}

function say(text: string): Turn {
  return { kind: 'say', text }
}
