import { open, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CommandModule } from 'yargs'
import { resolveModel } from '../hub/index.js'
import { MapleError } from '../errors.js'
import { fromNative, loadAddon } from '../native.js'
import { ggufTextFiles } from '../text/load.js'
import { exitCodeHelp } from './exit.js'
import { readSettings, settingFlags } from './flags.js'
import { ProgressDisplay } from './progress.js'
import { type Terminal, processTerminal, runCommand, write } from './terminal.js'

/** `maple-cpu pack`: a checkpoint as a folder that loads in a moment, anywhere. */
export const packModule: CommandModule = {
  command: 'pack <source> <dest>',
  describe: 'Convert a checkpoint into a folder that loads at once',
  builder: (yargs) =>
    yargs
      .positional('source', {
        type: 'string',
        demandOption: true,
        describe: 'a folder, a GGUF file, or a name on the hub',
      })
      .positional('dest', { type: 'string', demandOption: true, describe: 'the folder to make' })
      .options({
        ...settingFlags(['packExperts', 'threads', 'hfToken', 'hfHome', 'hfHubCache', 'hfEndpoint', 'hfHubOffline']),
        'ternarize-attention': {
          type: 'boolean',
          default: false,
          describe:
            'make the attention projections ternary by the rule the model was trained with, as its 2-bit exports do',
        },
      })
      .example('$0 pack deepgrove/maple-preview ./maple-packed', 'fetch, and convert')
      .example('$0 serve --model-path ./maple-packed', 'then use it')
      .epilogue(exitCodeHelp),
  handler: (argv) => {
    const terminal = processTerminal()
    return runCommand(terminal, (signal) => pack(argv, terminal, signal))
  },
}

async function pack(argv: Readonly<Record<string, unknown>>, terminal: Terminal, signal: AbortSignal): Promise<void> {
  const config = readSettings(argv)
  const { stderr, stdout } = terminal
  const addon = await loadAddon()
  const display = new ProgressDisplay(stderr, { dumb: !terminal.isFancy(stderr) })
  const cancellation = new addon.Cancellation()
  const cancel = (): void => cancellation.cancel()
  signal.addEventListener('abort', cancel)
  try {
    const { path } = await resolveModel(String(argv['source']), {
      env: config.hubEnv,
      signal,
      onProgress: (progress) => display.update(progress),
      onWarning: (message) => display.log(`warning: ${message}`),
    })
    const options = {
      packExperts: config.packExperts,
      threads: config.threads,
      ternarizeAttention: argv['ternarize-attention'] === true,
    }
    const dest = String(argv['dest'])
    // A GGUF file holds its tokenizer, which goes along as the files of a folder. Read first, so that a broken one ends it.
    const texts = (await stat(path)).isFile() && (await isGguf(path)) ? await ggufTextFiles(path) : {}
    const file = await addon.packCheckpoint(path, dest, options, (progress) => display.update(progress), cancellation)
    for (const [name, text] of Object.entries(texts)) await writeFile(join(dest, name), text)
    display.finish()
    await write(stdout, `${file}\n`, signal)
  } catch (error) {
    display.stop()
    signal.throwIfAborted()
    throw error instanceof MapleError ? error : fromNative(error)
  } finally {
    signal.removeEventListener('abort', cancel)
  }
}

async function isGguf(path: string): Promise<boolean> {
  const file = await open(path)
  try {
    const { buffer } = await file.read(Buffer.alloc(4), 0, 4, 0)
    return buffer.toString('latin1') === 'GGUF'
  } finally {
    await file.close()
  }
}
