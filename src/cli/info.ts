import type { CommandModule } from 'yargs'
import { resolveModel } from '../hub/index.js'
import { fromNative, loadAddon } from '../native.js'
import { exitCodeHelp } from './exit.js'
import { readSettings, settingFlags } from './flags.js'
import { formatBytes, formatCount } from './format.js'
import { type Terminal, bold, processTerminal, runCommand, write } from './terminal.js'

/** `maple-cpu info`: what a checkpoint is, without running it. */
export const infoModule: CommandModule = {
  command: 'info [model]',
  describe: 'Say what a checkpoint is: format, sizes, ternary share, memory it needs',
  builder: (yargs) =>
    yargs
      .positional('model', {
        type: 'string',
        describe: 'a folder, a GGUF file, or the name of a model that is in the cache already [MAPLE_MODEL_PATH]',
      })
      .options(settingFlags(['modelPath', 'cacheDir', 'hfHome', 'hfHubCache']))
      .option('json', { type: 'boolean', default: false, describe: 'print one JSON object' })
      .example('$0 info sprout', 'the small model that comes along')
      .example('$0 info ./checkpoint --json', 'for scripts')
      .epilogue(exitCodeHelp),
  handler: (argv) => {
    const terminal = processTerminal()
    return runCommand(terminal, (signal) => info(argv, terminal, signal))
  },
}

async function info(argv: Readonly<Record<string, unknown>>, terminal: Terminal, signal: AbortSignal): Promise<void> {
  const config = readSettings(argv)
  const spec = typeof argv['model'] === 'string' ? argv['model'] : config.modelPath
  const { path } = await resolveModel(spec, { env: config.hubEnv, signal, localOnly: true })
  const addon = await loadAddon()
  const found = await addon.inspectCheckpoint(path).catch((error: unknown) => {
    throw fromNative(error)
  })
  const { stdout } = terminal
  if (argv['json'] === true) return write(stdout, `${JSON.stringify({ model: spec, path, ...found })}\n`, signal)
  const share = found.weights > 0 ? (100 * found.ternaryWeights) / found.weights : 0
  const about = found.estimated ? 'about ' : ''
  const files = found.files.reduce((sum, file) => sum + file.bytes, 0)
  const rows: [string, string][] = [
    ['Path', path],
    ['Format', found.packed ? `${found.format}, packed by maple-cpu` : found.format],
    ['Files', `${found.files.length}, ${formatBytes(files)}`],
    ['Weights', formatCount(found.weights)],
    ['Ternary', `${about}${share.toFixed(share > 99.9 && share < 100 ? 2 : 1)} % kept at two bits`],
    ['Layers', `${found.layers}, width ${found.hiddenSize}, vocabulary ${found.vocabSize}`],
    ['Experts', `${found.experts} a layer, ${found.expertsPerToken} for each token`],
    ['Context', `${found.contextLength} tokens`],
    [
      'Memory',
      `${about}${formatBytes(found.weightBytes)} for the weights, ${formatBytes(found.kvBytesFixed)} + ${formatBytes(found.kvBytesPerToken)} a token for a conversation (${formatBytes(found.kvBytesFixed + 32_768 * found.kvBytesPerToken)} at 32768 tokens)`,
    ],
    ...found.warnings.map((warning): [string, string] => ['Warning', warning]),
  ]
  const fancy = terminal.isFancy(stdout)
  await write(stdout, rows.map(([name, value]) => `${bold(name.padEnd(8), fancy)} ${value}\n`).join(''), signal)
}
