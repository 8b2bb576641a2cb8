import { createError } from './errors.js'

/** Turns the text of a setting into its value; `undefined` means that it cannot be read. */
interface Reader<T> {
  /** What is allowed, for the error and for `--help`. */
  readonly allowed: string
  readonly read: (text: string) => T | undefined
}

/** One setting: an environment variable that is also a flag. */
export interface Setting<T = unknown> extends Reader<T> {
  readonly env: string
  /** Older spelling of the variable, read where `env` is absent. */
  readonly alias: string | undefined
  /** The default as text, read like any other value; `undefined` leaves the setting unset. */
  readonly fallback: string | undefined
  readonly about: string
  /** Whether the empty text is a value of its own rather than the default. */
  readonly emptyIsValue: boolean
}

const anyText: Reader<string> = { allowed: 'any text', read: (text) => text }

function integer(min: number, max: number): Reader<number> {
  return {
    allowed: max >= Number.MAX_SAFE_INTEGER ? `a whole number from ${min}` : `a whole number from ${min} to ${max}`,
    read: (text) => {
      const value = /^[+-]?\d+$/.test(text) ? Number(text) : NaN
      return value >= min && value <= max ? value : undefined
    },
  }
}

function decimal(allowed: string, accepts: (value: number) => boolean): Reader<number> {
  return {
    allowed,
    read: (text) => {
      const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : NaN
      return Number.isFinite(value) && accepts(value) ? value : undefined
    },
  }
}

/** A number of seconds that still fits a Node timer in milliseconds. */
function seconds(allowed: string, min: number): Reader<number> {
  return decimal(allowed, (value) => value >= min && value <= 2_000_000)
}

function oneOf<T>(values: Readonly<Record<string, T>>, shown: readonly string[]): Reader<T> {
  return {
    allowed: shown.join(', '),
    read: (text) => {
      const name = text.toLowerCase()
      return Object.hasOwn(values, name) ? values[name] : undefined
    },
  }
}

const truth = { '1': true, true: true, yes: true, on: true, '0': false, false: false, no: false, off: false }
const boolean = oneOf<boolean>(truth, ['1/true/yes/on', '0/false/no/off'])
const packing = oneOf<boolean>({ ...truth, auto: true }, ['auto', 'true', 'false'])

const dtype = oneOf<'auto' | 'float32' | 'int16' | 'int8'>(
  {
    ...{ auto: 'auto', int16: 'int16', int8: 'int8', float32: 'float32', fp32: 'float32', f32: 'float32' },
    // What a `.env` written for the Python server may hold; there they name the dtype of the whole model.
    ...{ bfloat16: 'auto', bf16: 'auto', float16: 'auto', fp16: 'auto', f16: 'auto', half: 'auto' },
  },
  ['auto', 'float32', 'int16', 'int8'],
)

const origins: Reader<readonly string[]> = {
  allowed: 'comma-separated origins such as https://chat.example, *, or nothing to turn CORS off',
  read: (text) => {
    const list = text
      .split(',')
      .map((item) => item.trim().replace(/\/$/, ''))
      .filter((item) => item !== '')
    const normal = list.map((item) => (item === '*' || item === 'null' ? item : originOf(item)))
    return normal.includes(undefined) ? undefined : Object.freeze(normal as string[])
  },
}

function originOf(text: string): string | undefined {
  if (!/^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s]+$/i.test(text) || !URL.canParse(text)) return undefined
  const url = new URL(text)
  // Schemes that the URL standard does not know (browser extensions) have an opaque origin; their text is compared.
  return url.origin === 'null' ? text.toLowerCase() : url.origin
}

function setting<T>(
  env: string,
  reader: Reader<T>,
  fallback: string | undefined,
  about: string,
  more: { alias?: string; emptyIsValue?: boolean } = {},
): Setting<T> {
  return { ...reader, env, fallback, about, alias: more.alias, emptyIsValue: more.emptyIsValue ?? false }
}

/** A setting without a default. */
function optional<T>(env: string, reader: Reader<T>, about: string): Setting<T | undefined> {
  return setting<T | undefined>(env, reader, undefined, about)
}

const count = integer(1, Number.MAX_SAFE_INTEGER)

/** Every setting by its name in {@link Config}. */
export const settings = Object.freeze({
  modelPath: setting(
    'MAPLE_MODEL_PATH',
    anyText,
    'deepgrove/maple-preview',
    'Hugging Face repo id, a local directory, or sprout',
  ),
  modelId: setting('MAPLE_MODEL_ID', anyText, 'maple-preview', 'id in /v1/models, echoed in responses'),
  strictModel: setting('MAPLE_STRICT_MODEL', boolean, 'false', '404 when a request names another model'),
  device: setting(
    'MAPLE_DEVICE',
    oneOf<'cpu'>({ auto: 'cpu', cpu: 'cpu' }, ['auto', 'cpu']),
    'auto',
    'where to compute',
  ),
  dtype: setting('MAPLE_DTYPE', dtype, 'auto', 'numeric mode of the activations; auto is int16'),
  packExperts: setting('MAPLE_PACK_EXPERTS', packing, 'auto', 'pack exactly ternary matrices to two bits'),
  mmap: setting(
    'MAPLE_MMAP',
    boolean,
    'true',
    'map weight files; false reads them, for files that may be cut or replaced meanwhile',
  ),
  threads: setting('MAPLE_THREADS', integer(0, 1024), '0', 'compute threads; 0 = the cores this process may use', {
    alias: 'MAPLE_TORCH_THREADS',
  }),
  apiKey: optional('MAPLE_API_KEY', anyText, 'key that the server asks for, or that is sent to it'),
  maxNewTokens: setting(
    'MAPLE_MAX_NEW_TOKENS',
    count,
    '4096',
    'tokens an answer may have, unless a request says (max_tokens)',
  ),
  maxNewTokensLimit: setting(
    'MAPLE_MAX_NEW_TOKENS_LIMIT',
    count,
    '32768',
    'tokens an answer may have, whatever a request says',
  ),
  maxPromptTokens: setting('MAPLE_MAX_PROMPT_TOKENS', count, '65536', 'longest prompt that is accepted'),
  temperature: setting(
    'MAPLE_TEMPERATURE',
    decimal('a number from 0 to 2', (value) => value >= 0 && value <= 2),
    '0.6',
    'temperature, unless a request says; 0 is greedy',
  ),
  topP: setting(
    'MAPLE_TOP_P',
    decimal('a number above 0, up to 1', (value) => value > 0 && value <= 1),
    '0.95',
    'top_p, unless a request says',
  ),
  topK: setting(
    'MAPLE_TOP_K',
    integer(-1, Number.MAX_SAFE_INTEGER),
    '20',
    'top_k, unless a request says; 0 or -1 turns it off',
  ),
  enableThinking: setting(
    'MAPLE_ENABLE_THINKING',
    boolean,
    'true',
    'let the model reason unless a request says not to',
  ),
  includeReasoning: setting('MAPLE_INCLUDE_REASONING', boolean, 'true', 'return reasoning_content by default'),
  maxQueueDepth: setting(
    'MAPLE_MAX_QUEUE_DEPTH',
    integer(0, 1_000_000),
    '16',
    'requests that may wait; 0 = nobody waits',
  ),
  queueTimeout: setting(
    'MAPLE_QUEUE_TIMEOUT',
    seconds('seconds, 0 or more', 0),
    '600',
    'seconds of waiting before 503; 0 does not wait',
  ),
  sendTimeout: setting(
    'MAPLE_SEND_TIMEOUT',
    seconds('seconds, at least 0.01', 0.01),
    '60',
    'seconds a reader may take nothing before it loses its slot',
  ),
  host: setting('MAPLE_HOST', anyText, '0.0.0.0', 'address to listen on'),
  port: setting('MAPLE_PORT', integer(0, 65535), '8000', 'port to listen on; 0 picks a free one'),
  allowedOrigins: setting(
    'MAPLE_ALLOWED_ORIGINS',
    origins,
    '*',
    'origins that may call from a browser; empty turns CORS off',
    { emptyIsValue: true },
  ),
  logLevel: setting(
    'MAPLE_LOG_LEVEL',
    oneOf({ debug: 'debug', info: 'info', warning: 'warning' } as const, ['debug', 'info', 'warning']),
    'info',
    'least severe line that is logged',
  ),
  maxBodyBytes: setting(
    'MAPLE_MAX_BODY_BYTES',
    integer(1024, 1 << 29),
    String(16 * 1024 * 1024),
    'largest request body, inflated',
  ),
  keepAliveInterval: setting(
    'MAPLE_KEEP_ALIVE_INTERVAL',
    seconds('seconds, at least 0.01', 0.01),
    '15',
    'seconds of silence before a stream gets a comment',
  ),
  shutdownGrace: setting(
    'MAPLE_SHUTDOWN_GRACE',
    seconds('seconds, 0 or more', 0),
    '30',
    'seconds that running answers get after SIGTERM',
  ),
  cacheDir: optional('MAPLE_CACHE', anyText, 'folder of packed models; the user cache folder by default'),
  hfToken: optional('HF_TOKEN', anyText, 'Hugging Face access token'),
  hfHome: optional('HF_HOME', anyText, 'folder of the Hugging Face tools'),
  hfHubCache: optional('HF_HUB_CACHE', anyText, 'folder of downloaded repos'),
  hfEndpoint: optional('HF_ENDPOINT', anyText, 'address of the hub'),
  hfHubOffline: optional('HF_HUB_OFFLINE', boolean, 'never ask the hub'),
})

type Settings = typeof settings
type SettingName = keyof Settings

/** All settings, read and checked. Frozen. */
export type Config = { readonly [K in SettingName]: Settings[K] extends Setting<infer T> ? T : never } & {
  /** What the Hugging Face tools and the cache look at, with this program's flags laid over the environment. */
  readonly hubEnv: Readonly<Record<string, string>>
  /** Settings that were understood, but not as their author may think: for the log. */
  readonly notices: readonly string[]
}

/** Where values come from, strongest first: values of a program, flags of a command line, the environment. */
export interface ConfigSources {
  readonly values?: Partial<Pick<Config, SettingName>> | undefined
  /** By {@link flagName}, without the dashes. */
  readonly flags?: Readonly<Record<string, unknown>> | undefined
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
}

/** The flag that belongs to a setting: `max-queue-depth` for `MAPLE_MAX_QUEUE_DEPTH`. */
export function flagName(setting: Setting): string {
  return setting.env
    .replace(/^MAPLE_/, '')
    .toLowerCase()
    .replaceAll('_', '-')
}

/** The environment of this process: the one place that looks at it. */
export function processEnv(): Readonly<Record<string, string | undefined>> {
  return process.env
}

/**
 * Reads all settings. A value that cannot be read is an error that names the setting, the value and what is allowed;
 * nothing falls back silently. An empty value is the default.
 */
export function createConfig(sources: ConfigSources = {}): Config {
  const values: Record<string, unknown> = {}
  const notices: string[] = []
  for (const name of Object.keys(settings) as SettingName[]) {
    const setting: Setting = settings[name]
    const given = find(name, setting, sources)
    const text = given?.text ?? setting.fallback
    if (text === undefined) {
      values[name] = undefined
      continue
    }
    const value = setting.read(text)
    if (value === undefined) {
      const source = given?.source ?? setting.env
      throw createError('INVALID_ARGUMENT', `${source}: cannot read ${quote(text)}; allowed: ${setting.allowed}`, {
        param: setting.env,
      })
    }
    values[name] = value
    if (name === 'dtype' && value === 'auto' && text.toLowerCase() !== 'auto') {
      notices.push(`${setting.env}=${text} is a mode of the Python server and means auto here`)
    }
  }
  values['hubEnv'] = Object.freeze(hubEnv(sources.env ?? {}, values))
  values['notices'] = Object.freeze(notices)
  return Object.freeze(values) as Config
}

function find(
  name: SettingName,
  setting: Setting,
  { values, flags, env }: ConfigSources,
): { text: string; source: string } | undefined {
  const candidates: [source: string, value: unknown][] = [
    [name, values?.[name]],
    [`--${flagName(setting)} (${setting.env})`, flags?.[flagName(setting)]],
    [setting.env, env?.[setting.env]],
  ]
  if (setting.alias !== undefined) candidates.push([setting.alias, env?.[setting.alias]])
  for (const [source, value] of candidates) {
    if (value === undefined || value === null) continue
    // eslint-disable-next-line @typescript-eslint/no-base-to-string -- lists become comma-separated text here
    const text = String(value).trim()
    if (text !== '' || setting.emptyIsValue) return { text, source }
  }
  return undefined
}

/** Variables that decide where downloads and packed models live, and how the hub is reached. */
const hubVariable =
  /^(HF_|HUGGING_?FACE_|TRANSFORMERS_OFFLINE$|XDG_CACHE_HOME$|HOME$|USERPROFILE$|LOCALAPPDATA$|MAPLE_CACHE$|(https?|no|all)_proxy$)/i

function hubEnv(
  env: Readonly<Record<string, string | undefined>>,
  values: Record<string, unknown>,
): Record<string, string> {
  const result: Record<string, string> = {}
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && hubVariable.test(name)) result[name] = value
  }
  for (const name of ['cacheDir', 'hfToken', 'hfHome', 'hfHubCache', 'hfEndpoint', 'hfHubOffline'] as const) {
    const value = values[name]
    if (value !== undefined)
      result[settings[name].env] = value === true ? '1' : value === false ? '0' : (value as string)
  }
  // A path may name further variables.
  for (const [, plain, braced] of Object.values(result)
    .join('\n')
    .matchAll(/\$(?:(\w+)|\{(\w+)\})/g)) {
    const name = plain ?? braced ?? ''
    const value = env[name]
    if (value !== undefined) result[name] ??= value
  }
  return result
}

/** The value as one short line, whatever it holds. */
function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
}
