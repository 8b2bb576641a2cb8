#!/usr/bin/env node
import yargs, { type CommandModule } from 'yargs'
import { hideBin } from 'yargs/helpers'
import { benchModule } from './bench.js'
import { chatModule } from './chat.js'
import { doctorModule } from './doctor.js'
import { exitCodes } from './exit.js'
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

const program = yargs(hideBin(process.argv))
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
  .strict()
  .help()
  .alias('help', 'h')
  .version(packageVersion)
  .wrap(Math.min(110, process.stdout.columns ?? 110))
  .exitProcess(false)
  .fail(false)

try {
  await program.parseAsync()
} catch (error) {
  // Commands report their own failures; what arrives here is about the command line.
  process.stderr.write(`maple-cpu: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = exitCodes.usage
}
