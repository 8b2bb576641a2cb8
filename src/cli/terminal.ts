import type { Readable, Writable } from 'node:stream'
import { processEnv } from '../config.js'
import { CliError, type ExitCode, Interrupted, OutputClosed, describeError, exitCodeOf, exitCodes } from './exit.js'

/** An output stream that may be a terminal. */
export type Output = Writable & { readonly isTTY?: boolean; readonly columns?: number }

/** The three streams of a process, and what may be done to them. */
export interface Terminal {
  readonly stdin: Readable & { readonly isTTY?: boolean; readonly fd?: number }
  readonly stdout: Output
  readonly stderr: Output
  /** Colours and bars are welcome on this stream. */
  isFancy(stream: Output): boolean
}

/** This process's terminal. */
export function processTerminal(env = processEnv()): Terminal {
  const { stdin, stdout, stderr } = process
  const plain = Boolean(env['NO_COLOR']) || env['TERM'] === 'dumb'
  return { stdin, stdout, stderr, isFancy: (stream) => stream.isTTY === true && !plain }
}

/** Dims a text, where that is wanted. */
export function dim(text: string, wanted: boolean): string {
  return wanted ? `\x1b[2m${text}\x1b[22m` : text
}

/** Makes a text bold, where that is wanted. */
export function bold(text: string, wanted: boolean): string {
  return wanted ? `\x1b[1m${text}\x1b[22m` : text
}

/** A model's text without what a terminal would obey: control characters other than new line and tab. */
export function harmless(text: string): string {
  // eslint-disable-next-line no-control-regex -- these are what is removed
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, '')
}

/** Writes, and waits while the reader is slower than the writer; stops waiting when the signal aborts. */
export async function write(stream: Output, text: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  if (stream.write(text)) return
  await new Promise<void>((resolve) => {
    const done = (): void => {
      stream.off('drain', done)
      signal.removeEventListener('abort', done)
      resolve()
    }
    stream.once('drain', done)
    signal.addEventListener('abort', done)
  })
  signal.throwIfAborted()
}

/**
 * Runs a command: prints what it throws and sets the exit code. Ctrl-C (or SIGTERM) aborts the signal; a second one ends the process at once. A reader
 * that closes the pipe aborts the signal too, and that is no failure.
 */
export async function runCommand(
  terminal: Terminal,
  command: (signal: AbortSignal) => Promise<ExitCode | void>,
): Promise<void> {
  const stop = new AbortController()
  const onSignal = (): void => {
    if (stop.signal.aborted) process.exit(exitCodes.interrupted)
    stop.abort(new Interrupted())
  }
  const onOutputError = (error: NodeJS.ErrnoException): void => {
    stop.abort(
      error.code === 'EPIPE' || error.code === 'EOF'
        ? new OutputClosed()
        : new CliError(`The output cannot be written: ${error.message}`, exitCodes.failed),
    )
  }
  // Whoever closes stderr loses messages and nothing else.
  const ignore = (): void => {}
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  terminal.stdout.on('error', onOutputError)
  terminal.stderr.on('error', ignore)
  try {
    process.exitCode = (await command(stop.signal)) ?? exitCodes.done
  } catch (error) {
    const shown: unknown = stop.signal.aborted ? stop.signal.reason : error
    process.exitCode = exitCodeOf(shown)
    if (shown instanceof Interrupted) terminal.stderr.write('\n')
    else if (!(shown instanceof OutputClosed)) terminal.stderr.write(`maple-cpu: ${describeError(shown)}\n`)
  } finally {
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
  }
}
