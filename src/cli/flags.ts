import type { Options } from 'yargs'
import { createConfig, flagName, processEnv, settings, type Config, type Setting } from '../config.js'

/** A setting by its name in {@link Config}. */
export type SettingName = keyof typeof settings

/** All settings, in the order in which `--help` shows them. */
export const allSettings = Object.keys(settings) as SettingName[]

/** Flags for some settings. All of them are text here: `createConfig` reads flags and variables alike. */
export function settingFlags(names: readonly SettingName[]): Record<string, Options> {
  return Object.fromEntries(names.map((name) => [flagName(settings[name]), toOption(settings[name])]))
}

function toOption(setting: Setting): Options {
  const { env, about, fallback } = setting
  return {
    type: 'string',
    describe: `${about} [${env}]`,
    requiresArg: !isSwitch(setting),
    group: 'Settings, as flags or as variables:',
    ...(fallback === undefined ? {} : { defaultDescription: fallback }),
    // A switch may stand alone: `--strict-model` means yes.
    ...(isSwitch(setting) ? { coerce: (text: string | undefined) => (text === '' ? 'true' : text) } : {}),
  }
}

/** Whether a setting is read as yes or no. */
function isSwitch(setting: Setting): boolean {
  return typeof setting.read('true') === 'boolean'
}

/** The settings of a command line over the environment. */
export function readSettings(argv: Readonly<Record<string, unknown>>): Config {
  return createConfig({ flags: argv, env: processEnv() })
}
