import type { Config } from '../config.js'
import { resolveModel } from '../hub/index.js'
import { type Terminal, dim } from './terminal.js'

/**
 * The model to answer with where none was named: the default if it is on this disk, else the small one that comes along.
 * Nobody who tries a prompt should set off a download of many gigabytes.
 */
export async function modelAtHand(config: Config, terminal: Terminal): Promise<string> {
  try {
    await resolveModel(config.modelPath, { env: config.hubEnv, localOnly: true })
    return config.modelPath
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'OFFLINE') throw error
  }
  const note = `${config.modelPath} is not on this machine; sprout, the small model that comes along, answers. --model-path names another.`
  const { stderr } = terminal
  stderr.write(`${dim(note, terminal.isFancy(stderr))}\n`)
  return 'sprout'
}
