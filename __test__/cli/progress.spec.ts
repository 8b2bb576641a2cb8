/* eslint-disable no-control-regex -- escape sequences are what is looked for */
import t from 'tap'
import { formatBytes, formatDuration } from '../../src/cli/format.js'
import { ProgressDisplay } from '../../src/cli/progress.js'

/** Runs a download of 1 GB in ten seconds and a short load, and returns what was written. */
function show(stream: { isTTY?: boolean; columns?: number }, dumb = false): string {
  let written = ''
  let now = 0
  const display = new ProgressDisplay({ ...stream, write: (text) => (written += text) }, { dumb, now: () => now })
  for (let i = 0; i <= 200; i++) {
    display.update({ phase: 'download', loadedBytes: i * 5e6, totalBytes: 1e9 })
    if (i === 100) display.log('a word in between')
    now += 200
  }
  display.update({ phase: 'load', loadedBytes: 0, totalBytes: 1e9 })
  now += 50
  display.update({ phase: 'load', loadedBytes: 1e9, totalBytes: 1e9 })
  display.finish()
  return written
}

t.test('on a terminal one line is redrawn, within its width', (t) => {
  for (const columns of [20, 40, 80, 200]) {
    const text = show({ isTTY: true, columns })
    const lines = text.split(/[\r\n]/).map((line) => line.replaceAll('\x1b[K', ''))
    t.ok(
      lines.every((line) => line.length < columns || line.startsWith('download: 1.00 GB in')),
      `${columns} columns`,
    )
    t.equal(text.split('\n').length, 3, 'lines stay for the word in between and the end of the download only')
    t.match(text, 'download: 1.00 GB in 40 s')
  }
  const text = show({ isTTY: true, columns: 100 })
  t.match(text, /\rdownload \[#{20}-{20}\] 50 %, 500 MB of 1\.00 GB, 25\.0 MB\/s, 20 s left\x1b\[K/)
  t.match(text, /\r\x1b\[Ka word in between\n/)
  t.end()
})

t.test('in a pipe plain lines come now and then, with nothing to move the cursor', (t) => {
  for (const [stream, dumb] of [
    [{}, false],
    [{ isTTY: true }, true],
  ] as const) {
    const text = show(stream, dumb)
    t.notMatch(text, /[\x1b\r]/)
    const lines = text.trimEnd().split('\n')
    t.ok(lines.length >= 5 && lines.length <= 7, `${lines.length} lines`)
    t.match(lines[0], /^download: 12 %, 125 MB of 1\.00 GB, 25\.0 MB\/s, 35 s left$/)
    t.equal(lines.at(-1), 'download: 1.00 GB in 40 s')
  }
  t.end()
})

t.test('a failure leaves a clean line, bytes may go back, and sizes may be unknown', (t) => {
  let written = ''
  const display = new ProgressDisplay(
    { isTTY: true, write: (text) => (written += text) },
    { now: () => written.length * 200 },
  )
  for (const loadedBytes of [0, 10, 20, 5, 0, 30]) display.update({ phase: 'download', loadedBytes, totalBytes: 0 })
  display.stop()
  t.notMatch(written, /-\d|NaN|Infinity/)
  t.ok(written.endsWith('\r\x1b[K'))
  const length = written.length
  display.finish()
  t.equal(written.length, length)
  t.end()
})

t.test('numbers for people', (t) => {
  const bytes: [number, string][] = [
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.00 kB'],
    [999_600, '1.00 MB'],
    [5_310_000_000, '5.31 GB'],
    [40e9, '40.0 GB'],
    [123.4e9, '123 GB'],
  ]
  for (const [value, text] of bytes) t.equal(formatBytes(value), text)
  const times: [number, string][] = [
    [0.42, '0.4 s'],
    [9.99, '10 s'],
    [59.4, '59 s'],
    [59.6, '1:00 min'],
    [185, '3:05 min'],
    [8100, '2:15 h'],
    [Infinity, '?'],
  ]
  for (const [value, text] of times) t.equal(formatDuration(value), text)
  t.end()
})
