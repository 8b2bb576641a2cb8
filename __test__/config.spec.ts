import t from 'tap'
import { createConfig, flagName, settings } from '../src/config.js'

t.test('every default is readable and the object is frozen', (t) => {
  const config = createConfig()
  t.match(config, {
    modelPath: 'deepgrove/maple-preview',
    modelId: 'maple-preview',
    strictModel: false,
    device: 'cpu',
    dtype: 'auto',
    packExperts: true,
    mmap: true,
    threads: 0,
    apiKey: undefined,
    maxNewTokens: 4096,
    maxNewTokensLimit: 32768,
    maxPromptTokens: 65536,
    temperature: 0.6,
    topP: 0.95,
    topK: 20,
    enableThinking: true,
    includeReasoning: true,
    maxQueueDepth: 16,
    queueTimeout: 600,
    sendTimeout: 60,
    host: '0.0.0.0',
    port: 8000,
    allowedOrigins: ['*'],
    logLevel: 'info',
  })
  t.ok(Object.isFrozen(config))
  t.end()
})

t.test('values of a program win over flags, flags over variables, variables over their older spelling', (t) => {
  const env = { MAPLE_THREADS: '3', MAPLE_TORCH_THREADS: '4', MAPLE_PORT: '81' }
  t.equal(createConfig({ env: { MAPLE_TORCH_THREADS: '4' } }).threads, 4)
  t.equal(createConfig({ env }).threads, 3)
  t.equal(createConfig({ env, flags: { threads: '2' } }).threads, 2)
  t.equal(createConfig({ env, flags: { threads: '2' }, values: { threads: 1 } }).threads, 1)
  t.equal(createConfig({ env, flags: { threads: '2' } }).port, 81)
  t.end()
})

t.test('flag names follow the variables', (t) => {
  const names = Object.values(settings).map(flagName)
  t.equal(new Set(names).size, names.length)
  for (const name of ['model-path', 'max-new-tokens-limit', 'hf-hub-offline', 'api-key'])
    t.ok(names.includes(name), name)
  t.end()
})

t.test('booleans in any case and spelling', (t) => {
  for (const text of ['1', 'true', 'YES', 'On', ' tRue '])
    t.equal(createConfig({ env: { MAPLE_STRICT_MODEL: text } }).strictModel, true, text)
  for (const text of ['0', 'False', 'no', 'OFF'])
    t.equal(createConfig({ env: { MAPLE_ENABLE_THINKING: text } }).enableThinking, false, text)
  t.equal(createConfig({ env: { MAPLE_PACK_EXPERTS: 'false' } }).packExperts, false)
  t.equal(createConfig({ env: { MAPLE_PACK_EXPERTS: 'AUTO' } }).packExperts, true)
  t.end()
})

t.test('an empty value is the default, except for the origins', (t) => {
  const env = Object.fromEntries(Object.values(settings).map(({ env }) => [env, '']))
  const { allowedOrigins, hubEnv, ...rest } = createConfig({ env })
  t.strictSame(allowedOrigins, [])
  const { allowedOrigins: _, hubEnv: __, ...defaults } = createConfig()
  t.strictSame(rest, defaults)
  t.type(hubEnv, 'object')
  t.end()
})

t.test('a value that cannot be read names the variable, the value and what is allowed, in one line', (t) => {
  const bad: [variable: string, value: string, allowed: RegExp][] = [
    ['MAPLE_DEVICE', 'cuda', /auto, cpu/],
    ['MAPLE_DTYPE', 'int4', /float32, int16, int8/],
    ['MAPLE_STRICT_MODEL', 'maybe', /true/],
    ['MAPLE_PORT', '65536', /0 to 65535/],
    ['MAPLE_PORT', '80a', /whole number/],
    ['MAPLE_PORT', '0x50', /whole number/],
    ['MAPLE_THREADS', '-1', /from 0/],
    ['MAPLE_THREADS', '1.5', /whole number/],
    ['MAPLE_TEMPERATURE', '2.1', /0 to 2/],
    ['MAPLE_TEMPERATURE', 'NaN', /0 to 2/],
    ['MAPLE_TOP_P', '0', /above 0/],
    ['MAPLE_TOP_K', '-2', /from -1/],
    ['MAPLE_MAX_NEW_TOKENS', '0', /from 1/],
    ['MAPLE_MAX_PROMPT_TOKENS', '99999999999999999999', /whole number/],
    ['MAPLE_QUEUE_TIMEOUT', '-1', /0 or more/],
    ['MAPLE_QUEUE_TIMEOUT', 'Infinity', /0 or more/],
    ['MAPLE_SEND_TIMEOUT', '0', /at least/],
    ['MAPLE_LOG_LEVEL', 'loud', /debug, info, warning/],
    ['MAPLE_ALLOWED_ORIGINS', 'localhost:3000', /origins/],
    ['MAPLE_ALLOWED_ORIGINS', 'https://a.example/path', /origins/],
    ['HF_HUB_OFFLINE', '2\nx', /true/],
  ]
  for (const [variable, value, allowed] of bad) {
    try {
      createConfig({ env: { [variable]: value } })
      t.fail(`${variable}=${value} was accepted`)
    } catch (error) {
      const { message } = error as Error
      t.ok(
        message.startsWith(`${variable}: `) && message.includes(JSON.stringify(value)) && !message.includes('\n'),
        message,
      )
      t.match(message, allowed)
    }
  }
  t.throws(() => createConfig({ flags: { 'max-queue-depth': 'many' } }), {
    message: /--max-queue-depth \(MAPLE_MAX_QUEUE_DEPTH\)/,
  })
  t.throws(() => createConfig({ values: { port: 70000 } }), { message: /^port: / })
  t.end()
})

t.test('modes of the Python server mean auto, and are noted', (t) => {
  for (const mode of ['bfloat16', 'float16', 'bf16', 'FP16', 'half']) {
    const config = createConfig({ env: { MAPLE_DTYPE: mode } })
    t.equal(config.dtype, 'auto')
    t.match(config.notices, [new RegExp(mode)])
  }
  t.strictSame(createConfig({ env: { MAPLE_DTYPE: 'auto' } }).notices, [])
  t.end()
})

t.test('origins are compared in their normal form', (t) => {
  const config = createConfig({
    env: { MAPLE_ALLOWED_ORIGINS: ' HTTPS://Chat.Example:443/ , http://localhost:3000,null,' },
  })
  t.strictSame(config.allowedOrigins, ['https://chat.example', 'http://localhost:3000', 'null'])
  t.end()
})

t.test('fractions of seconds, and what the hub sees', (t) => {
  const env = { MAPLE_QUEUE_TIMEOUT: '0.25', HF_TOKEN: 'from-env', HOME: '/home/someone', PATH: '/bin' }
  const config = createConfig({ env, flags: { 'hf-token': 'from-flag', 'hf-hub-offline': 'yes' } })
  t.equal(config.queueTimeout, 0.25)
  t.strictSame(config.hubEnv, { HF_TOKEN: 'from-flag', HOME: '/home/someone', HF_HUB_OFFLINE: '1' })
  const nested = { HF_HOME: '$SCRATCH/${NAME}', SCRATCH: '/scratch', NAME: 'hf', OTHER: 'x', TRANSFORMERS_OFFLINE: '1' }
  const { OTHER: _, ...seen } = nested
  t.strictSame(createConfig({ env: nested }).hubEnv, seen, 'with the variables that paths name')
  t.end()
})
