import { access, constants, readFile, stat, statfs } from 'node:fs/promises'
import { createServer } from 'node:net'
import { availableParallelism, cpus, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import type { Config } from '../config.js'
import { availableMemory, hubCacheDir, packedCacheDir, resolveModel } from '../hub/index.js'
import { loadAddon } from '../native.js'
import { packageVersion } from '../version.js'
import { describeError } from './exit.js'
import { formatBytes } from './format.js'

/** One thing looked at. */
export interface Check {
  readonly name: string
  /** `ok`; `note`: it will work, but could be better; `bad`: it will not work. */
  readonly verdict: 'ok' | 'note' | 'bad'
  readonly found: string
  /** What to do; there for everything that is not ok. */
  readonly remedy?: string
}

/** Memory that Maple's weights take at two bits with a 4-bit head, and what a conversation and the program need beside it. */
const usualWeights = 5.4e9
const besideWeights = 0.6e9
/** Published downloads: of weights at two bits, and at sixteen. */
const packedDownload = 5.4e9
const plainDownload = 40.6e9

/** Looks at everything that decides whether and how well the model will run here. */
export async function runChecks(config: Config): Promise<Check[]> {
  const model = await checkModel(config)
  return [
    checkNode(),
    ...(await checkAddon(config)),
    model.check,
    await checkMemory(model.weightBytes),
    await checkFolder(
      'Downloads',
      hubCacheDir(config.hubEnv),
      model.isHere ? 0 : downloadSize(config.modelPath),
      'HF_HUB_CACHE',
    ),
    await checkFolder('Packed cache', packedCacheDir(config.hubEnv), model.isHere ? 0 : usualWeights, 'MAPLE_CACHE'),
    await checkPort(config),
  ]
}

function downloadSize(spec: string): number {
  return /2bit|gguf|mlx/i.test(spec) ? packedDownload : plainDownload
}

function checkNode(): Check {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const found = `maple-cpu ${packageVersion}, Node ${process.version} on ${process.platform}-${process.arch}`
  if (major > 20 || (major === 20 && minor >= 19)) return { name: 'Versions', verdict: 'ok', found }
  return { name: 'Versions', verdict: 'bad', found, remedy: 'Use Node 20.19 or later.' }
}

async function checkAddon(config: Config): Promise<Check[]> {
  let info
  try {
    info = (await loadAddon()).cpuInfo()
  } catch (error) {
    return [
      {
        name: 'Native addon',
        verdict: 'bad',
        found: describeError(error),
        remedy: 'Reinstall maple-cpu on this machine, or build it with "npm run build:native".',
      },
    ]
  }
  const { isa, isas, features } = info
  const cpu = cpus()[0]?.model.trim() || process.arch
  const kernels = `kernel set ${isa}, the best of those this CPU runs (${isas.join(', ')})`
  const slow =
    isa === 'scalar'
      ? 'This CPU lacks the vector instructions there are kernels for; expect a few words a minute. Use a CPU with AVX2 or NEON.'
      : undefined
  return [
    {
      name: 'CPU',
      verdict: 'ok',
      found: `${cpu}; ${features.length > 0 ? features.join(' ') : 'no vector features of use'}`,
    },
    slow === undefined
      ? { name: 'Kernels', verdict: 'ok', found: kernels }
      : { name: 'Kernels', verdict: 'note', found: kernels, remedy: slow },
    await checkThreads(config, info.threads),
  ]
}

async function checkThreads(config: Config, usable: number): Promise<Check> {
  const threads = config.threads || usable
  const quota = await cgroupCpus()
  const reasons = [
    `this machine has ${cpus().length} logical CPUs`,
    ...(usable < cpus().length && availableParallelism() < cpus().length
      ? [`this process is bound to ${availableParallelism()}`]
      : []),
    ...(quota === undefined ? [] : [`its control group may use ${quota} of them`]),
  ]
  const found = `${threads}${config.threads > 0 ? ' (MAPLE_THREADS)' : ''}: ${reasons.join(', ')}`
  if (threads > usable) {
    return {
      name: 'Threads',
      verdict: 'note',
      found,
      remedy: `Threads that share a CPU wait for each other. Set MAPLE_THREADS to 0 or to ${usable} at most.`,
    }
  }
  if (threads === 1)
    return {
      name: 'Threads',
      verdict: 'note',
      found,
      remedy: 'Give the process more CPUs if there are any: speed grows with them.',
    }
  return { name: 'Threads', verdict: 'ok', found }
}

async function checkModel(config: Config): Promise<{ check: Check; isHere: boolean; weightBytes: number }> {
  const name = 'Model'
  const spec = config.modelPath
  let path: string
  try {
    ;({ path } = await resolveModel(spec, { env: config.hubEnv, localOnly: true }))
  } catch (error) {
    const offline = (error as { code?: unknown }).code === 'OFFLINE'
    const check: Check = offline
      ? {
          name,
          verdict: 'note',
          found: `${spec} is not on this disk yet`,
          remedy: config.hfHubOffline
            ? 'HF_HUB_OFFLINE is set: unset it for the first start.'
            : 'The first start fetches it.',
        }
      : { name, verdict: 'bad', found: describeError(error), remedy: 'Set MAPLE_MODEL_PATH to a model there is.' }
    return { check, isHere: false, weightBytes: usualWeights }
  }
  try {
    const { weightBytes, format, estimated } = await (await loadAddon()).inspectCheckpoint(path)
    const found = `${spec}: ${format}, ${estimated ? 'about ' : ''}${formatBytes(weightBytes)} in memory`
    return { check: { name, verdict: 'ok', found }, isHere: true, weightBytes }
  } catch (error) {
    const remedy = 'Fetch or convert it again, or name another model.'
    return {
      check: {
        name,
        verdict: 'bad',
        found: `${spec}: ${error instanceof Error ? error.message : String(error)}`,
        remedy,
      },
      isHere: true,
      weightBytes: usualWeights,
    }
  }
}

async function checkMemory(weightBytes: number): Promise<Check> {
  const needed = weightBytes + besideWeights
  const limit = process.constrainedMemory() || Infinity
  const total = Math.min(totalmem(), limit)
  const available = Math.min(availableMemory(), total)
  const found = `${formatBytes(available)} available of ${formatBytes(total)}${total === limit ? ' (the control group\u2019s limit)' : ''}; about ${formatBytes(needed)} needed`
  if (available >= needed) return { name: 'Memory', verdict: 'ok', found }
  const remedy =
    total >= needed
      ? 'Close other programs.'
      : 'Weights that do not fit are read from disk over and over, which is slow. Use a machine with more memory.'
  return { name: 'Memory', verdict: 'note', found, remedy }
}

async function checkFolder(name: string, folder: string, needed: number, variable: string): Promise<Check> {
  const existing = await nearest(folder)
  const free = await statfs(existing).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => Infinity,
  )
  const found = `${folder}, ${formatBytes(free)} free`
  const elsewhere = `Set ${variable} to another folder.`
  const writable = await access(existing, constants.W_OK).then(
    async () => (await stat(existing)).isDirectory(),
    () => false,
  )
  if (!writable)
    return { name, verdict: needed > 0 ? 'bad' : 'note', found: `${found}, not writable`, remedy: elsewhere }
  if (free < needed)
    return {
      name,
      verdict: 'bad',
      found: `${found}, about ${formatBytes(needed)} needed`,
      remedy: `Free some space. ${elsewhere}`,
    }
  return { name, verdict: 'ok', found }
}

async function checkPort({ host, port }: Config): Promise<Check> {
  const name = 'Port'
  const where = `${host}:${port}`
  const code = await new Promise<string | undefined>((resolve) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'unknown'))
    server.listen({ host, port }, () => server.close(() => resolve(undefined)))
  })
  if (code === undefined) return { name, verdict: 'ok', found: `${where} is free` }
  if (code === 'EADDRINUSE') {
    const ours = await isMaple(port)
    const remedy = ours
      ? 'Use it, for instance with "maple-cpu chat --url"; a second one needs another --port.'
      : 'Choose another with --port or MAPLE_PORT.'
    return {
      name,
      verdict: 'note',
      found: `${where} is taken by ${ours ? 'a running maple-cpu' : 'another program'}`,
      remedy,
    }
  }
  if (code === 'EACCES')
    return {
      name,
      verdict: 'bad',
      found: `${where} is not allowed to this user`,
      remedy: 'Choose a --port above 1023.',
    }
  return {
    name,
    verdict: 'bad',
    found: `${where} cannot be listened on (${code})`,
    remedy: 'Set MAPLE_HOST to an address of this machine, such as 127.0.0.1.',
  }
}

async function isMaple(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/health`, { signal: AbortSignal.timeout(2000) })
    const health = (await response.json()) as { status?: unknown; queue_depth?: unknown } | null
    return typeof health?.status === 'string' && 'queue_depth' in health
  } catch {
    return false
  }
}

/** CPUs that the control group's quota amounts to, where there is one. */
async function cgroupCpus(): Promise<number | undefined> {
  const group = /^0::(.*)$/m.exec(await readFile('/proc/self/cgroup', 'utf8').catch(() => ''))?.[1] ?? '/'
  for (const folder of new Set([join('/sys/fs/cgroup', group), '/sys/fs/cgroup'])) {
    const [quota, period] = (await readFile(join(folder, 'cpu.max'), 'utf8').catch(() => '')).split(/\s+/).map(Number)
    if (quota && period) return Math.round((10 * quota) / period) / 10
  }
  return undefined
}

async function nearest(path: string): Promise<string> {
  const parent = dirname(path)
  const there = await stat(path).catch(() => undefined)
  return there !== undefined || parent === path ? path : nearest(parent)
}
