import { once } from 'node:events'
import type { CommandModule } from 'yargs'
import type { Config } from '../config.js'
import type { LoadProgress } from '../server/state.js'
import { allSettings, readSettings, settingFlags } from './flags.js'
import { processTerminal, runCommand, type Terminal } from './terminal.js'

export const serveModule: CommandModule = {
  command: 'serve',
  describe: 'Serves the model over the OpenAI API',
  builder: (program) =>
    program
      .options(settingFlags(allSettings))
      .example('$0 serve', 'the full model, on port 8000')
      .example('$0 serve --model-path sprout --port 9000', 'the small model that comes with the package')
      .example('$0 serve --model-path ./checkpoint --api-key secret', 'a folder, for those who know the key'),
  handler: (argv) => {
    const terminal = processTerminal()
    return runCommand(terminal, (signal) => serve(readSettings(argv), terminal, signal))
  },
}

/** Listens at once and loads meanwhile; ends when the signal aborts and the running answers are complete. */
async function serve(config: Config, terminal: Terminal, signal: AbortSignal): Promise<void> {
  // Imported here, because no other command should wait for Express; and the load begins before the server is read.
  const [{ loadModel }, { createLogger }] = await Promise.all([import('./load.js'), import('./log.js')])
  const { stderr } = terminal
  const logger = createLogger(config.logLevel, stderr, terminal.isFancy(stderr))
  for (const notice of config.notices) logger.warn({}, notice)

  // A port that cannot be had must also end the load.
  const ended = new AbortController()
  const stop = AbortSignal.any([signal, ended.signal])
  let progress: LoadProgress | undefined
  const loading = loadModel(config, terminal, stop, (event) => (progress = event))
  // A load that fails before anybody looks is told of later.
  loading.catch(() => {})
  try {
    const [{ createApp }, { listen }] = await Promise.all([import('../server/app.js'), import('../server/listen.js')])
    const running = await listen(createApp(loading, config, { logger, progress: () => progress }))
    logger.info({ url: running.url, model: config.modelPath }, 'listening; the model is loading')
    loading.then(
      ({ info }) => {
        const { dtype, isa, threads, contextLength, loadSeconds } = info
        logger.info({ dtype, isa, threads, contextLength, loadSeconds }, 'the model is loaded')
      },
      (error: unknown) => {
        if (!stop.aborted) logger.error({ err: error }, 'the model could not be loaded; /health says why')
      },
    )
    if (!signal.aborted) await once(signal, 'abort')
    logger.info({}, 'stopping: running answers finish, new requests are turned away')
    const complete = await running.close()
    logger.info({}, complete ? 'stopped' : 'stopped; answers that took too long were cut off')
  } finally {
    ended.abort()
    await loading.then((model) => model.dispose()).catch(() => {})
  }
}
