import type { CommandModule } from 'yargs'
import type { ChatMessage } from '../chat/types.js'
import { answerFacts, readAnswer } from './answer.js'
import { openBackend } from './open-backend.js'
import { CliError, exitCodeHelp, exitCodes } from './exit.js'
import { type ChatFlags, chatFlags, chatSettings } from './chat-flags.js'
import { type Terminal, dim, harmless, processTerminal, runCommand, write } from './terminal.js'

const maxInputBytes = 64 * 1024 * 1024

interface RunFlags extends ChatFlags {
  readonly prompt?: string | undefined
  readonly json: boolean
}

/** `maple-cpu run`: one answer on stdout. */
export const runModule: CommandModule = {
  command: 'run [prompt]',
  describe: 'Answer one prompt and end',
  builder: (yargs) =>
    yargs
      .positional('prompt', {
        describe: 'what to ask; text from a pipe is put below it, or is the prompt itself',
        type: 'string',
      })
      .options(chatFlags)
      .option('json', {
        type: 'boolean',
        default: false,
        describe: 'print one JSON object: answer, reasoning, usage, times',
      })
      .example('$0 run "Why is the sky blue?"', 'one answer')
      .example('$0 run --no-think "Summarise this:" < notes.txt', 'about a document')
      .example('git diff | $0 run "Write a commit message" > message.txt', 'in a pipe')
      .example('$0 run --json "2+2" | jq -r .content', 'for scripts')
      .epilogue(exitCodeHelp),
  handler: (argv) => {
    const flags = argv as unknown as RunFlags
    const terminal = processTerminal()
    return runCommand(terminal, (signal) => run(flags, terminal, signal))
  },
}

async function run(flags: RunFlags, terminal: Terminal, signal: AbortSignal): Promise<void> {
  const settings = chatSettings(flags)
  const { params, system } = settings
  const prompt = await readPrompt(flags.prompt ?? '', terminal, signal)
  const messages: ChatMessage[] = [
    ...(system === undefined ? [] : [{ role: 'system', content: system }]),
    { role: 'user', content: prompt },
  ]
  const { stdout, stderr } = terminal
  const backend = await openBackend(settings, terminal, signal)
  try {
    // On a terminal the reasoning shows that something happens; elsewhere the answer is all that is wanted.
    const onScreen = stdout.isTTY === true && stderr.isTTY === true && !flags.json
    const fancy = terminal.isFancy(stderr)
    const clean = stdout.isTTY === true ? harmless : (text: string): string => text
    let last = ''
    let reasoning = false
    const answer = await readAnswer(backend.chat({ messages, ...params }, signal), async (event) => {
      if (flags.json) return
      if (event.type === 'content') {
        if (reasoning) stderr.write('\n\n')
        reasoning = false
        last = event.text
        await write(stdout, clean(event.text), signal)
      } else if (event.type === 'reasoning' && onScreen) {
        reasoning = true
        await write(stderr, dim(harmless(event.text), fancy), signal)
      }
    })
    if (flags.json) {
      const { content, toolCalls, finishReason, usage, seconds } = answer
      const object = {
        model: backend.model,
        content,
        ...(answer.reasoning === '' ? {} : { reasoning_content: answer.reasoning }),
        ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }),
        finish_reason: finishReason,
        usage: {
          prompt_tokens: usage.promptTokens,
          completion_tokens: usage.completionTokens,
          total_tokens: usage.promptTokens + usage.completionTokens,
          prompt_tokens_details: { cached_tokens: usage.cachedTokens },
          completion_tokens_details: { reasoning_tokens: usage.reasoningTokens },
        },
        seconds: { first_token: seconds.first, total: seconds.total },
      }
      await write(stdout, `${JSON.stringify(object)}\n`, signal)
    } else {
      if (!last.endsWith('\n')) await write(stdout, '\n', signal)
      if (onScreen || answer.finishReason === 'length') stderr.write(`${dim(`[${answerFacts(answer)}]`, fancy)}\n`)
    }
  } finally {
    await backend.close()
  }
}

/** The prompt from the command line, with what comes through a pipe below it. */
async function readPrompt(prompt: string, { stdin, stderr }: Terminal, signal: AbortSignal): Promise<string> {
  let document = ''
  if (stdin.isTTY !== true) {
    const reminder = setTimeout(
      () => stderr.write('maple-cpu: waiting for the end of the input (close it, or use </dev/null)\n'),
      3000,
    )
    try {
      document = await readAll(stdin, signal)
    } finally {
      clearTimeout(reminder)
    }
  }
  const text = [prompt, document].filter((part) => part.trim() !== '').join('\n\n')
  if (text !== '') return text
  throw new CliError('There is no prompt. Try: maple-cpu run "Why is the sky blue?"', exitCodes.usage)
}

async function readAll(stream: Terminal['stdin'], signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = []
  let length = 0
  const onAbort = (): void => void stream.destroy()
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > maxInputBytes)
        throw new CliError(
          `The input has more than ${maxInputBytes / 1024 / 1024} MiB, more than any context holds.`,
          exitCodes.usage,
        )
      chunks.push(chunk)
    }
  } catch (error) {
    signal.throwIfAborted()
    // A closed stdin is an empty one.
    if ((error as NodeJS.ErrnoException).code !== 'EBADF' && (error as NodeJS.ErrnoException).code !== 'EAGAIN')
      throw error
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
  signal.throwIfAborted()
  return Buffer.concat(chunks).toString('utf8')
}
