import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { buildSources } from '../build.js'

const main = join(buildSources(t), 'src', 'cli', 'main.js')

/** A running `maple-cpu`, its output as it comes. */
export class Program {
  readonly child: ChildProcessWithoutNullStreams
  stdout = ''
  stderr = ''
  readonly ended: Promise<number | NodeJS.Signals | null>

  constructor(command: string, args: readonly string[], env: Record<string, string>) {
    this.child = spawn(command, args, { env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', ...env } })
    this.child.stdout.on('data', (data: Buffer) => (this.stdout += data.toString()))
    this.child.stderr.on('data', (data: Buffer) => (this.stderr += data.toString()))
    this.child.stdin.on('error', () => {})
    this.ended = once(this.child, 'close').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals | null)
    t.teardown(() => this.child.kill('SIGKILL'))
  }

  /** Waits until the output holds a text. */
  async until(text: string | RegExp): Promise<void> {
    while (!(typeof text === 'string' ? this.stdout.includes(text) : text.test(this.stdout))) {
      if (this.child.exitCode !== null) throw new Error(`ended without "${text}":\n${this.stdout}\n${this.stderr}`)
      await delay(5)
    }
  }
}

/** Starts it with pipes; stdin is closed at once unless `input` is `open`. */
export function start(
  args: readonly string[],
  options: { input?: string; env?: Record<string, string> } = {},
): Program {
  const program = new Program(process.execPath, [main, ...args], options.env ?? {})
  if (options.input !== 'open') program.child.stdin.end(options.input ?? '')
  return program
}

/** Starts it in a terminal of its own, made by the `script` tool. What the terminal shows is its stdout. */
export function startInTerminal(args: readonly string[], env: Record<string, string> = {}): Program {
  const quoted = [process.execPath, main, ...args].map((part) => `'${part}'`).join(' ')
  return new Program('script', ['-qfec', quoted, '/dev/null'], { TERM: 'xterm', SHELL: '/bin/sh', ...env })
}
