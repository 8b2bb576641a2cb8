import { writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import type { CommandModule } from 'yargs'
import { type PartialAnswer, answerFacts, readAnswer } from './answer.js'
import type { ChatBackend } from './backend.js'
import { Conversation } from './conversation.js'
import { type ExitCode, Interrupted, describeError, exitCodeHelp, exitCodes } from './exit.js'
import { type ChatFlags, type ChatSettings, chatFlags, chatSettings } from './chat-flags.js'
import { openBackend } from './open-backend.js'
import { type Terminal, bold, dim, harmless, processTerminal, runCommand, write } from './terminal.js'

/** `maple-cpu chat`: a conversation in the terminal. */
export const chatModule: CommandModule = {
  command: 'chat',
  describe: 'Talk with the model in the terminal',
  builder: (yargs) =>
    yargs
      .options(chatFlags)
      .example('$0 chat', 'load the model and talk')
      .example('$0 chat --url http://127.0.0.1:8000', 'talk through a running server')
      .example('$0 chat --model-path sprout --no-think', 'the small model that comes along')
      .epilogue(`In the chat, /help lists its commands. Ctrl-C stops an answer, Ctrl-D leaves.\n\n${exitCodeHelp}`),
  handler: (argv) => {
    const flags = argv as unknown as ChatFlags
    const terminal = processTerminal()
    return runCommand(terminal, async (signal) => {
      const settings = chatSettings(flags)
      const backend = await openBackend(settings, terminal, signal)
      try {
        return await new ChatLoop(backend, settings, terminal, signal).run()
      } finally {
        await backend.close()
      }
    })
  },
}

class ChatLoop {
  readonly #backend: ChatBackend
  readonly #settings: ChatSettings
  readonly #terminal: Terminal
  readonly #signal: AbortSignal
  readonly #conversation: Conversation
  /** Stops the answer under way. */
  #answering: AbortController | undefined
  #leaving = false

  constructor(backend: ChatBackend, settings: ChatSettings, terminal: Terminal, signal: AbortSignal) {
    this.#backend = backend
    this.#settings = settings
    this.#terminal = terminal
    this.#signal = signal
    this.#conversation = new Conversation(settings.system, settings.params.enableThinking ?? true)
  }

  async run(): Promise<ExitCode> {
    const { stdin, stdout, stderr } = this.#terminal
    const interactive = stdin.isTTY === true && stdout.isTTY === true
    const lines = createInterface({ input: stdin, ...(interactive ? { output: stdout } : {}), terminal: interactive })
    const prompt = (): void => {
      if (!interactive) return
      lines.setPrompt(this.#conversation.isContinued ? '. ' : bold('> ', this.#terminal.isFancy(stdout)))
      lines.prompt()
    }
    // In raw mode Ctrl-C comes through the line editor, not as a signal.
    lines.on('SIGINT', () => {
      if (this.#answering !== undefined) {
        this.#answering.abort(new Interrupted())
      } else if (this.#conversation.dropPending() || lines.line !== '') {
        this.#leaving = false
        lines.write(null, { ctrl: true, name: 'e' })
        lines.write(null, { ctrl: true, name: 'u' })
        stdout.write('\n')
        prompt()
      } else if (this.#leaving) {
        lines.close()
      } else {
        this.#leaving = true
        stdout.write('\n')
        this.#say('Ctrl-C once more leaves; so does Ctrl-D.')
        prompt()
      }
    })
    const onAbort = (): void => lines.close()
    this.#signal.addEventListener('abort', onAbort)
    try {
      if (interactive) this.#say(`Talking with ${this.#backend.model}. /help lists the commands.`)
      prompt()
      for await (const line of lines) {
        this.#leaving = false
        if (!(await this.#take(line))) break
        prompt()
      }
      this.#signal.throwIfAborted()
      if (interactive) stderr.write('\n')
      return exitCodes.done
    } finally {
      this.#signal.removeEventListener('abort', onAbort)
      lines.close()
    }
  }

  /** Takes one line; false ends the chat. */
  async #take(line: string): Promise<boolean> {
    const turn = this.#conversation.take(line)
    switch (turn.kind) {
      case 'leave':
        return false
      case 'say':
        if (turn.text !== '') this.#say(turn.text)
        return true
      case 'save':
        try {
          await writeFile(turn.file, turn.text, { flag: 'wx' })
          this.#say(`Saved as ${turn.file}.`)
        } catch (error) {
          const taken = (error as NodeJS.ErrnoException).code === 'EEXIST'
          this.#say(
            taken ? `${turn.file} is there already; choose another name.` : `Not saved: ${(error as Error).message}`,
          )
        }
        return true
      case 'ask':
        await this.#answer()
        return true
    }
  }

  async #answer(): Promise<void> {
    const { stdout } = this.#terminal
    const fancy = this.#terminal.isFancy(stdout)
    const clean = stdout.isTTY === true ? harmless : (text: string): string => text
    const stop = new AbortController()
    this.#answering = stop
    const signal = AbortSignal.any([this.#signal, stop.signal])
    const partial: PartialAnswer = { content: '', reasoning: '', toolCalls: [] }
    let last: 'reasoning' | 'content' | undefined
    const show = async (kind: 'reasoning' | 'content', text: string): Promise<void> => {
      if (kind === 'reasoning' && last === undefined && !fancy) await write(stdout, '[reasoning] ', signal)
      if (kind === 'content' && last === 'reasoning') await write(stdout, fancy ? '\n\n' : '\n[answer] ', signal)
      last = kind
      await write(stdout, kind === 'reasoning' ? dim(clean(text), fancy) : clean(text), signal)
    }
    try {
      const params = {
        ...this.#settings.params,
        enableThinking: this.#conversation.thinking,
        messages: this.#conversation.messages,
      }
      const answer = await readAnswer(
        this.#backend.chat(params, signal),
        async (event) => {
          if (event.type === 'tool_call')
            await show('content', `\n${event.call.function.name}(${event.call.function.arguments})\n`)
          else await show(event.type, event.text)
        },
        partial,
      )
      await write(stdout, '\n', signal)
      this.#conversation.answered(partial)
      this.#say(`[${answerFacts(answer)}]`)
    } catch (error) {
      this.#signal.throwIfAborted()
      stdout.write('\n')
      this.#conversation.answered(partial)
      this.#say(stop.signal.aborted ? '[stopped]' : `${describeError(error)} (the question was taken back)`)
    } finally {
      this.#answering = undefined
    }
  }

  /** A word from the program, not from the model. */
  #say(text: string): void {
    const { stderr } = this.#terminal
    stderr.write(`${dim(text, this.#terminal.isFancy(stderr))}\n`)
  }
}
