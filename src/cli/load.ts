import type { Config } from '../config.js'
import { Maple, type LoadProgress } from '../maple.js'
import { ProgressDisplay } from './progress.js'
import { type Terminal, dim } from './terminal.js'

/** {@link Maple.load} as the settings say, with progress and warnings on stderr. */
export async function loadModel(
  config: Config,
  terminal: Terminal,
  signal: AbortSignal,
  onProgress: (progress: LoadProgress) => void = () => {},
): Promise<Maple> {
  const { stderr } = terminal
  const fancy = terminal.isFancy(stderr)
  const display = new ProgressDisplay(stderr, { dumb: !fancy })
  const warn = (message: string): void => display.log(dim(`warning: ${message}`, fancy))
  const told = new Set<string>()
  try {
    const model = await Maple.load(config.modelPath, {
      dtype: config.dtype,
      threads: config.threads,
      packExperts: config.packExperts,
      mmap: config.mmap,
      env: config.hubEnv,
      signal,
      onProgress: (progress) => {
        onProgress(progress)
        display.update(progress)
      },
      onWarning: (message) => {
        told.add(message)
        warn(message)
      },
    })
    display.finish()
    for (const message of model.info.warnings) if (!told.has(message)) warn(message)
    return model
  } catch (error) {
    display.stop()
    throw error
  }
}
