#!/usr/bin/env node
import yargs, { type CommandModule } from 'yargs'
import { hideBin } from 'yargs/helpers'
import { benchModule } from './bench.js'
import { chatModule } from './chat.js'
import { doctorModule } from './doctor.js'
import { exitCodeHelp, exitCodes } from './exit.js'
import { infoModule } from './info.js'
import { packModule } from './pack.js'
import { runModule } from './run.js'
import { serveModule } from './serve.js'
import { packageVersion } from '../version.js'

/** What the program can do: one file a command. */
const commands: readonly CommandModule[] = [
  serveModule,
  chatModule,
  runModule,
  infoModule,
  packModule,
  benchModule,
  doctorModule,
]

const args = hideBin(process.argv)

const program = yargs(args)
  .scriptName('maple-cpu')
  .usage('$0 <command>\n\nRuns the Maple language model on this CPU.')
  .locale('en')
  .parserConfiguration({
    'boolean-negation': false,
    'camel-case-expansion': false,
    'dot-notation': false,
    'duplicate-arguments-array': false,
    'parse-numbers': false,
    'parse-positional-numbers': false,
  })
  .command([...commands])
  .demandCommand(1, 'Which command? --help lists them.')
  .recommendCommands()
  .updateStrings({ 'Did you mean %s?': 'There is no such command. Did you mean %s?' })
  .example('$0 run "Say hello in French."', 'one answer, from the small model unless the full one is here')
  .example('$0 chat --model-path sprout', 'a conversation in the terminal')
  .example('$0 serve', 'the OpenAI API and the chat page on port 8000, with the full model')
  .example('$0 doctor', 'will it run here, and how well?')
  .epilogue(
    `maple-cpu COMMAND --help says more. Settings are flags and environment variables alike: --port 9000 is MAPLE_PORT=9000.\n\n${exitCodeHelp}`,
  )
  .strict()
  .help()
  .alias('help', 'h')
  .version(packageVersion)
  .wrap(Math.min(110, process.stdout.columns ?? 110))
  .exitProcess(false)
  .fail(false)

/** Where to read on after a complaint about the command line. */
function advice(message: string): string {
  if (message.includes('--help')) return ''
  const command = commands.some((module) => String(module.command).split(' ')[0] === args[0]) ? `${args[0]} ` : ''
  const unknown = /^Unknown arguments?: (.*)$/.exec(message)?.[1]?.split(', ') ?? []
  const unquoted = command === 'run ' && unknown.some((word) => args.includes(word))
  return `${unquoted ? ' A prompt of several words goes in quotes.' : ''} See maple-cpu ${command}--help.`
}

try {
  await program.parseAsync()
} catch (error) {
  // Commands report their own failures; what arrives here is about the command line.
  const message = (error instanceof Error ? error.message : String(error)).replace('non-option arguments', 'arguments')
  process.stderr.write(`maple-cpu: ${message}${/[.?]$/.test(message) ? '' : '.'}${advice(message)}\n`)
  process.exitCode = exitCodes.usage
}
