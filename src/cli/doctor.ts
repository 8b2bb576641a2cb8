import type { CommandModule } from 'yargs'
import { type Check, runChecks } from './checks.js'
import { type ExitCode, exitCodes } from './exit.js'
import { allSettings, readSettings, settingFlags } from './flags.js'
import { type Terminal, bold, dim, processTerminal, runCommand, write } from './terminal.js'

/** `maple-cpu doctor`: what this machine offers, and what to do where that is not enough. */
export const doctorModule: CommandModule = {
  command: 'doctor',
  describe: 'Check CPU, threads, memory, disk, caches, model and port',
  builder: (yargs) =>
    yargs
      .options(settingFlags(allSettings))
      .option('json', { type: 'boolean', default: false, describe: 'print one JSON object' })
      .example('$0 doctor', 'for the settings in the environment')
      .example('$0 doctor --model-path sprout --port 9000', 'for others')
      .epilogue('Exit codes: 0 it will work, 1 something is bad.'),
  handler: (argv) => {
    const terminal = processTerminal()
    return runCommand(terminal, (signal) => doctor(argv, terminal, signal))
  },
}

async function doctor(
  argv: Readonly<Record<string, unknown>>,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<ExitCode> {
  const checks = await runChecks(readSettings(argv))
  const { stdout } = terminal
  const text =
    argv['json'] === true
      ? `${JSON.stringify({ checks })}\n`
      : checks.map((check) => line(check, terminal.isFancy(stdout))).join('')
  await write(stdout, text, signal)
  return checks.some(({ verdict }) => verdict === 'bad') ? exitCodes.failed : exitCodes.done
}

function line({ name, verdict, found, remedy }: Check, fancy: boolean): string {
  const indent = ' '.repeat(6)
  const advice = remedy === undefined ? '' : `${indent}${dim('->', fancy)} ${remedy}\n`
  return `${bold(verdict.padEnd(5), fancy && verdict !== 'ok')} ${name}: ${found}\n${advice}`
}
