import { cpus } from 'node:os'
import type { CommandModule } from 'yargs'
import { packedCacheDir, resolveModel } from '../hub/index.js'
import { type NativeBenchReport, type NativeLoadProgress, fromNative, loadAddon } from '../native.js'
import { CliError, exitCodeHelp, exitCodes } from './exit.js'
import { readSettings, settingFlags } from './flags.js'
import { formatBytes } from './format.js'
import { ProgressDisplay } from './progress.js'
import { type Terminal, bold, processTerminal, runCommand, write } from './terminal.js'

/** What random weights are like unless flags say otherwise: the published model, as its MLX checkpoint has it. */
const shape = { layers: '24', experts: '256', head: '4bit' } as const

/** `maple-cpu bench`: how fast this machine runs the model, and how near that is to what its memory gives. */
export const benchModule: CommandModule = {
  command: 'bench [model]',
  describe: 'Measure prefill and decoding, and the memory bandwidth they are bound by',
  builder: (yargs) =>
    yargs
      .positional('model', {
        type: 'string',
        describe: 'a folder, a GGUF file, or a name in the cache; random weights of the true shape by default',
      })
      .options({
        ...settingFlags(['dtype', 'threads', 'cacheDir', 'hfHome', 'hfHubCache']),
        isa: { type: 'string', requiresArg: true, describe: 'kernel set; the best this CPU has by default' },
        layers: {
          type: 'string',
          requiresArg: true,
          describe: 'layers of the random weights',
          defaultDescription: shape.layers,
        },
        experts: {
          type: 'string',
          requiresArg: true,
          describe: 'experts a layer of the random weights',
          defaultDescription: shape.experts,
        },
        head: {
          choices: ['4bit', 'q4_k', 'bf16'],
          defaultDescription: shape.head,
          describe:
            'embedding and head of the random weights: as in the MLX checkpoint, in GGUF files, in the original',
        },
        prompt: { type: 'string', requiresArg: true, describe: 'tokens of the prompt', default: '512' },
        tokens: { type: 'string', requiresArg: true, describe: 'tokens generated in a round', default: '64' },
        rounds: { type: 'string', requiresArg: true, describe: 'rounds, whose median counts', default: '5' },
        depth: {
          type: 'string',
          requiresArg: true,
          describe: 'depths of context to decode at besides 0, with commas between them',
        },
        compare: {
          type: 'string',
          requiresArg: true,
          describe: 'a second setting measured in alternation, such as dtype=int8, isa=avx2,threads=1 or head=bf16',
        },
        json: { type: 'boolean', default: false, describe: 'print one JSON object' },
      })
      .example('$0 bench --depth 4096,32768', 'also with much context')
      .example('$0 bench sprout --compare threads=1', 'one thread beside all')
      .epilogue(exitCodeHelp),
  handler: (argv) => {
    const terminal = processTerminal()
    return runCommand(terminal, (signal) => bench(argv, terminal, signal))
  },
}

interface Setting {
  dtype?: string
  isa?: string
  threads?: number
  head?: string
}

async function bench(argv: Readonly<Record<string, unknown>>, terminal: Terminal, signal: AbortSignal): Promise<void> {
  const config = readSettings(argv)
  const setting: Setting = {
    ...(config.dtype === 'auto' ? {} : { dtype: config.dtype }),
    ...(typeof argv['isa'] === 'string' ? { isa: argv['isa'] } : {}),
    threads: config.threads,
  }
  const depths = typeof argv['depth'] === 'string' ? argv['depth'].split(',').map((text) => whole('depth', text)) : []
  const number = (name: string): number => whole(name, String(argv[name]))
  const ofShape = (name: keyof typeof shape): string => {
    const given = argv[name]
    return typeof given === 'string' ? given : shape[name]
  }
  const model = argv['model']
  if (typeof model !== 'string') setting.head = ofShape('head')
  const second = typeof argv['compare'] === 'string' ? readCompare(argv['compare'], setting) : undefined
  for (const name of Object.keys(shape)) {
    if (typeof model === 'string' && argv[name] !== undefined) {
      throw new CliError(
        `--${name} and a model exclude each other: it shapes random weights. Leave one of them out.`,
        exitCodes.usage,
      )
    }
  }
  const options = {
    ...(typeof model === 'string'
      ? {
          path: (await resolveModel(model, { env: config.hubEnv, signal, localOnly: true })).path,
          cacheFolder: packedCacheDir(config.hubEnv),
        }
      : {
          layers: whole('layers', ofShape('layers')),
          experts: whole('experts', ofShape('experts')),
        }),
    prompt: number('prompt'),
    tokens: number('tokens'),
    rounds: number('rounds'),
    depths,
    settings: second === undefined ? [setting] : [setting, second],
  }
  const addon = await loadAddon()
  const { stdout, stderr } = terminal
  const display = new ProgressDisplay(stderr, { dumb: !terminal.isFancy(stderr) })
  const phase = typeof model === 'string' ? {} : { phase: 'making weights' }
  const onProgress = (progress: NativeLoadProgress): void => {
    display.update({ ...progress, ...phase })
    if (progress.loadedBytes < progress.totalBytes) return
    display.finish()
    stderr.write('measuring ...\n')
  }
  const cancellation = new addon.Cancellation()
  const cancel = (): void => cancellation.cancel()
  signal.addEventListener('abort', cancel)
  let reports
  try {
    reports = await addon.benchmark(options, onProgress, cancellation)
  } catch (error) {
    display.stop()
    signal.throwIfAborted()
    throw fromNative(error)
  } finally {
    signal.removeEventListener('abort', cancel)
  }
  const weights =
    typeof model === 'string'
      ? model
      : `random, ${ofShape('layers')} layers, ${ofShape('experts')} experts, ${ofShape('head')} head`
  const text =
    argv['json'] === true
      ? `${JSON.stringify(toJson(weights, reports, options.settings))}\n`
      : toTable(weights, reports, options, terminal.isFancy(stdout))
  await write(stdout, text, signal)
}

function whole(name: string, text: string): number {
  if (!/^\d{1,9}$/.test(text.trim())) {
    throw new CliError(`--${name} must be a whole number, got ${JSON.stringify(text)}.`, exitCodes.usage)
  }
  return Number(text)
}

/** `dtype=int8,threads=1` over the first setting. */
function readCompare(text: string, first: Setting): Setting {
  const second: Setting = { ...first }
  for (const part of text.split(',')) {
    const [name, value, ...more] = part.split('=').map((piece) => piece.trim())
    if (value === undefined || value === '' || more.length > 0) {
      throw new CliError(`--compare takes name=value pairs, got ${JSON.stringify(part)}.`, exitCodes.usage)
    }
    if (name === 'dtype' || name === 'isa') second[name] = value
    else if (name === 'threads') second.threads = whole('compare threads', value)
    else if (name === 'head' && first.head !== undefined) second.head = value
    else {
      const known = first.head === undefined ? 'dtype, isa and threads' : 'dtype, isa, threads and head'
      throw new CliError(`--compare knows ${known}, not ${JSON.stringify(name)}.`, exitCodes.usage)
    }
  }
  return second
}

function reportToJson(report: NativeBenchReport, { head }: Setting = {}): Record<string, unknown> {
  return {
    isa: report.isa,
    dtype: report.dtype,
    threads: report.threads,
    head: head ?? null,
    prefill_tps: report.prefillTps,
    decode_tps: report.decodeTps,
    decode_gbps: report.decodeGbps,
    read_gbps: report.readGbps,
    share_of_read: report.decodeGbps / report.readGbps,
    bytes_per_token: report.bytesPerToken,
    rss_bytes: report.rssBytes ?? process.memoryUsage.rss(),
    logits_hash: report.logitsHash,
    refined_rows: report.refinedRows ?? null,
    depths: report.depths.map((at) => ({
      depth: at.depth,
      decode_tps: at.decodeTps,
      bytes_per_token: at.bytesPerToken,
    })),
  }
}

function toJson(
  weights: string,
  reports: readonly NativeBenchReport[],
  settings: readonly Setting[],
): Record<string, unknown> {
  const [first, second] = reports
  if (first === undefined) return {}
  const cpu = cpus()[0]?.model ?? 'unknown'
  const result = { cpu, weights, ...reportToJson(first, settings[0]) }
  if (second === undefined) return result
  const ratio = { prefill: second.prefillTps / first.prefillTps, decode: second.decodeTps / first.decodeTps }
  return { ...result, compare: reportToJson(second, settings[1]), ratio }
}

function toTable(
  weights: string,
  reports: readonly NativeBenchReport[],
  { prompt, settings }: { prompt: number; settings: readonly Setting[] },
  fancy: boolean,
): string {
  const [first, second] = reports
  const rows: [string, ...string[]][] = [
    ['Setting', ...reports.map(({ isa, dtype, threads }) => `${isa} ${dtype}, ${threads} threads`)],
    ...(settings.some(({ head }) => head !== settings[0]?.head)
      ? [['Head', ...settings.map(({ head }) => head ?? '')] satisfies [string, ...string[]]]
      : []),
    [`Prefill of ${prompt}`, ...reports.map((report) => `${report.prefillTps.toFixed(1)} tok/s`)],
    ['Decoding', ...reports.map((report) => `${report.decodeTps.toFixed(1)} tok/s`)],
    ['A token reads', ...reports.map((report) => formatBytes(report.bytesPerToken))],
    ['Decoding reads', ...reports.map((report) => `${report.decodeGbps.toFixed(1)} GB/s`)],
    ['Memory reads', ...reports.map((report) => `${report.readGbps.toFixed(1)} GB/s`)],
    ['Share of it', ...reports.map((report) => `${((100 * report.decodeGbps) / report.readGbps).toFixed(0)} %`)],
    ...(first?.depths ?? []).map(({ depth }, i): [string, ...string[]] => [
      `Decoding at ${depth}`,
      ...reports.map((report) => `${report.depths[i]?.decodeTps.toFixed(1) ?? '?'} tok/s`),
    ]),
    ['Logits hash', ...reports.map((report) => report.logitsHash)],
  ]
  if (first?.refinedRows !== undefined) {
    rows.push(['Head rows refined', ...reports.map((report) => `${(report.refinedRows ?? 0).toFixed(1)} a token`)])
  }
  const rss = first?.rssBytes ?? process.memoryUsage.rss()
  const lines = [
    `${cpus()[0]?.model ?? 'unknown CPU'}; weights: ${weights}; ${formatBytes(rss)} resident`,
    ...rows.map(([name, ...cells]) =>
      `${bold(name.padEnd(18), fancy)} ${cells.map((cell) => cell.padEnd(28)).join(' ')}`.trimEnd(),
    ),
  ]
  if (first !== undefined && second !== undefined) {
    const prefill = (second.prefillTps / first.prefillTps).toFixed(2)
    const decode = (second.decodeTps / first.decodeTps).toFixed(2)
    lines.push(`The second is ${prefill} times the first in prefill, ${decode} times in decoding.`)
  }
  return `${lines.join('\n')}\n`
}
