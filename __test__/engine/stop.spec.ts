import { deepEqual, ok } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { StopFilter, type StopStep } from '../../src/engine/stop.js'
import { cutAt, cuts } from '../helpers/split.js'

function run(stops: readonly string[], pieces: readonly string[]): StopStep {
  const filter = new StopFilter(stops)
  let text = ''
  for (const piece of pieces) {
    const step = filter.push(piece)
    text += step.text
    if (step.stop !== undefined) return { ...step, text }
  }
  const step = filter.end()
  return { ...step, text: text + step.text }
}

/** The same by looking at the whole text. */
function oracle(stops: readonly string[], text: string): StopStep {
  const found = stops.filter((stop) => stop !== '' && text.includes(stop))
  // Of those that begin at the same place the shortest is whole first.
  found.sort((a, b) => text.indexOf(a) - text.indexOf(b) || a.length - b.length)
  const [stop] = found
  return stop === undefined ? { text } : { text: text.slice(0, text.indexOf(stop)), stop }
}

const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 24 })
const stopStrings = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 6 }), { maxLength: 5 })

t.test('cuts at the earliest match, wherever the text was split', async () => {
  fc.assert(
    fc.property(stopStrings, letters, cuts, (stops, text, positions) => {
      deepEqual(run(stops, cutAt(text, positions)), oracle(stops, text))
      deepEqual(run(stops, text.split('')), oracle(stops, text))
    }),
    { numRuns: 3000 },
  )
})

t.test('holds back only what may still become a stop string', async (t) => {
  const filter = new StopFilter(['</end>', 'STOP'])
  t.same(filter.push('abc</en'), { text: 'abc' })
  t.same(filter.push('x ST'), { text: '</enx ' })
  t.same(filter.push('OP and more'), { text: '', stop: 'STOP' })
})

t.test('never sends a beginning of a stop string early', async () => {
  fc.assert(
    fc.property(stopStrings, letters, (stops, text) => {
      const filter = new StopFilter(stops)
      const { text: allowed } = oracle(stops, text)
      let sent = ''
      for (const char of text) {
        const step = filter.push(char)
        sent += step.text
        ok(allowed.startsWith(sent))
        if (step.stop !== undefined) break
      }
    }),
  )
})

t.test('long stop strings and texts take linear time', async (t) => {
  const stops = Array.from({ length: 16 }, (_, i) => 'a'.repeat(4000 + i) + 'b')
  t.same(
    run(
      stops,
      Array.from({ length: 2000 }, () => 'a'.repeat(100)),
    ),
    { text: 'a'.repeat(200_000) },
  )
})
