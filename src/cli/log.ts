import { pino } from 'pino'
import type { Config } from '../config.js'
import type { Logger } from '../server/logger.js'
import { dim, harmless, type Output } from './terminal.js'

const levels = { debug: 'debug', info: 'info', warning: 'warn' } as const

/** A logger that writes JSON lines, or lines for people where `fancy` says that they read along. */
export function createLogger(level: Config['logLevel'], stream: Output, fancy: boolean): Logger {
  const options = { level: levels[level], base: null, timestamp: pino.stdTimeFunctions.isoTime }
  return pino(options, fancy ? { write: (line: string) => stream.write(readable(line)) } : stream)
}

const levelNames: Readonly<Record<number, string>> = { 20: 'debug', 30: '', 40: 'warning', 50: 'error' }

/** `12:30:01 request id=... status=200` from a JSON line. */
function readable(line: string): string {
  const { level, time, msg, err, ...fields } = JSON.parse(line) as {
    level: number
    time: string
    msg: string
    err?: { stack?: string; message?: string }
  }
  const name = levelNames[level] ?? ''
  const details = Object.entries(fields)
    .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')
  const cause = err ? `\n${err.stack ?? err.message ?? ''}` : ''
  const text = `${name === '' ? '' : `${name}: `}${msg}`
  const tail = details === '' ? '' : ` ${dim(harmless(details).replaceAll('\n', ' '), true)}`
  return `${harmless(`${time.slice(11, 19)} ${text}`)}${tail}${harmless(cause)}\n`
}
