import type { Options } from 'yargs'
import type { ChatParams } from '../chat/types.js'
import { type Config, processEnv, settings } from '../config.js'
import { CliError, exitCodes } from './exit.js'
import { type SettingName, readSettings, settingFlags } from './flags.js'

/** Settings that say which model to run and how. */
export const modelSettings = [
  'modelPath',
  'dtype',
  'packExperts',
  'mmap',
  'threads',
  'cacheDir',
  'hfToken',
  'hfHome',
  'hfHubCache',
  'hfEndpoint',
  'hfHubOffline',
] as const satisfies readonly SettingName[]

/** Flags of the commands that ask the model something. */
export interface ChatFlags {
  readonly url?: string | undefined
  readonly system?: string | undefined
  readonly think?: boolean | undefined
  readonly 'no-think'?: boolean | undefined
  readonly seed?: string | undefined
  readonly stop?: string | undefined
  readonly 'model-path'?: string | undefined
}

/** Those flags for yargs, with the settings they lean on. */
export const chatFlags: Readonly<Record<string, Options>> = {
  url: { type: 'string', requiresArg: true, describe: 'ask this running server instead of loading the model here' },
  system: { type: 'string', requiresArg: true, describe: 'system prompt' },
  think: { type: 'boolean', describe: 'let the model reason first' },
  'no-think': { type: 'boolean', describe: 'answer at once, without reasoning', conflicts: 'think' },
  seed: { type: 'string', requiresArg: true, describe: 'a whole number; same seed, same answer' },
  stop: { type: 'string', requiresArg: true, describe: 'text that ends the answer' },
  ...settingFlags(['maxNewTokens', 'temperature', 'topP', 'topK', 'enableThinking', 'apiKey', ...modelSettings]),
}

/** What those flags come to. */
export interface ChatSettings {
  readonly config: Config
  /** Whether a flag or the environment says which model to use. */
  readonly isModelNamed: boolean
  readonly url: string | undefined
  readonly system: string | undefined
  readonly params: Omit<ChatParams, 'messages'>
}

/** Reads and checks them. */
export function chatSettings(flags: ChatFlags): ChatSettings {
  const config = readSettings({ ...flags })
  if (flags.seed !== undefined && !/^-?\d{1,30}$/.test(flags.seed)) {
    throw new CliError(`--seed takes a whole number, and is "${flags.seed}".`, exitCodes.usage)
  }
  return {
    config,
    isModelNamed: [flags['model-path'], processEnv()[settings.modelPath.env]].some((name) => Boolean(name?.trim())),
    url: flags.url,
    system: flags.system,
    params: {
      maxTokens: config.maxNewTokens,
      temperature: config.temperature,
      topP: config.topP,
      topK: config.topK,
      seed: flags.seed === undefined ? undefined : BigInt(flags.seed),
      stop: flags.stop,
      enableThinking: flags['no-think'] === true ? false : (flags.think ?? config.enableThinking),
    },
  }
}
