import t, { type Test } from 'tap'
import { fixture } from '../helpers/fixtures.js'
import { start } from './program.js'

t.setTimeout(240_000)

const tiny = fixture('tiny-hf-sharded')
/** So little work that it is done in a moment. */
const brief = ['--prompt', '20', '--tokens', '3', '--rounds', '2']

interface Report {
  isa: string
  dtype: string
  threads: number
  prefill_tps: number
  decode_tps: number
  decode_gbps: number
  read_gbps: number
  share_of_read: number
  bytes_per_token: number
  rss_bytes: number
  logits_hash: string
  refined_rows: number | null
  depths: { depth: number; decode_tps: number; bytes_per_token: number }[]
  compare: Report
  ratio: { prefill: number; decode: number }
}

async function bench(t: Test, ...args: string[]): Promise<Report> {
  const program = start(['bench', ...args, '--json'])
  t.equal(await program.ended, 0, program.stderr)
  return JSON.parse(program.stdout) as Report
}

t.test('a checkpoint is measured under two settings, which agree where they must', async (t) => {
  const report = await bench(
    t,
    tiny,
    ...brief,
    '--threads',
    '1',
    '--depth',
    '30,60',
    '--compare',
    'isa=scalar,threads=2',
  )
  t.match(report, { dtype: 'int16', threads: 1, compare: { isa: 'scalar', threads: 2 } })
  for (const one of [report, report.compare]) {
    for (const rate of [one.prefill_tps, one.decode_tps, one.read_gbps, one.share_of_read]) t.ok(rate > 0, String(rate))
    t.ok(Math.abs(one.decode_gbps - (one.decode_tps * one.bytes_per_token) / 1e9) < 1e-6 * one.decode_gbps)
    t.ok(one.refined_rows !== null && one.refined_rows >= 1, 'its head is screened')
    t.match(one.logits_hash, /^[0-9a-f]{16}$/)
    const [near, far] = one.depths
    t.same([near?.depth, far?.depth], [30, 60])
    t.ok(
      one.bytes_per_token < (near?.bytes_per_token ?? 0) && (near?.bytes_per_token ?? 0) < (far?.bytes_per_token ?? 0),
    )
    t.ok(one.rss_bytes > one.bytes_per_token)
  }
  t.equal(report.compare.logits_hash, report.logits_hash, 'threads and instruction set change no bit')
  t.equal(report.compare.bytes_per_token, report.bytes_per_token)
  t.equal(report.ratio.decode, report.compare.decode_tps / report.decode_tps)
  t.equal(report.ratio.prefill, report.compare.prefill_tps / report.prefill_tps)
  const other = await bench(t, tiny, ...brief, '--dtype', 'int8')
  t.equal(other.dtype, 'int8')
  t.not(other.logits_hash, report.logits_hash)
})

t.test('random weights have the shape and head asked for', async (t) => {
  const report = await bench(t, '--layers', '1', '--experts', '8', '--head', 'q4_k', '--compare', 'head=bf16', ...brief)
  // A layer of attention, router and eight of eight experts, and 4 bits with scales for each group of 32 in the head.
  t.ok(report.bytes_per_token > 190e6 && report.bytes_per_token < 210e6, String(report.bytes_per_token))
  t.equal(report.refined_rows, null)
  // The other head is read as 8-bit rows, in front of few of its own.
  t.ok(report.compare.bytes_per_token > report.bytes_per_token + 100e6, String(report.compare.bytes_per_token))
  t.ok((report.compare.refined_rows ?? 0) >= 1)
  t.not(report.compare.logits_hash, report.logits_hash)
})

t.test('people get a table', async (t) => {
  const program = start([
    'bench',
    fixture('tiny-hf-sharded'),
    '--prompt',
    '8',
    '--tokens',
    '2',
    '--compare',
    'dtype=float32',
  ])
  t.equal(await program.ended, 0, program.stderr)
  t.match(
    program.stdout,
    /tiny-hf-sharded[^]*Setting +\S+ int16[^]* float32[^]*Prefill of 8[^]*Decoding[^]*Memory reads[^]*Logits hash[^]*The second is [\d.]+ times the first/,
  )
})

t.test('bad flags are refused with what would be right', async (t) => {
  const cases: [string[], RegExp][] = [
    [['--layers', '25'], /`layers` must be a whole number from 1 to 24, got 25/],
    [['--experts', '7'], /`experts` must be a whole number from 8 to 1024, got 7/],
    [['--tokens', 'many'], /--tokens must be a whole number, got "many"/],
    [['--rounds', '0'], /`rounds` must be a whole number from 1/],
    [['--depth', '1,x'], /--depth must be a whole number, got "x"/],
    [['--head', 'int8'], /head.*int8.*4bit.*q4_k.*bf16/s],
    [['--isa', 'mmx'], /mmx/],
    [['--dtype', 'int4'], /int4/],
    [['--compare', 'speed=2'], /--compare knows dtype, isa, threads and head, not "speed"/],
    [['--compare', 'head=int8'], /`head` must be 4bit, q4_k or bf16, got int8/],
    [['sprout', '--compare', 'head=bf16'], /--compare knows dtype, isa and threads, not "head"/],
    [['--compare', 'dtype'], /--compare takes name=value pairs, got "dtype"/],
    [['--compare', 'dtype=int4'], /`dtype` must be float32, int16 or int8, got int4/],
    [[tiny, '--depth', '9999999'], /`depth` must be at most \d+/],
    [[tiny, '--depth', '90', '--tokens', '40', '--rounds', '101'], /`depth` must be at most 56, .* got 90/],
    [[tiny, '--prompt', '4097'], /`prompt` must be at most 4096/],
    [[tiny, '--tokens', '4097'], /`tokens` must be at most 4096/],
    [['sprout', '--layers', '2'], /--layers and a model exclude each other/],
  ]
  for (const [args, message] of cases) {
    const program = start(['bench', ...args])
    t.equal(await program.ended, 2, args.join(' '))
    t.match(program.stderr, message)
  }
})

t.test('Ctrl-C ends it', async (t) => {
  const program = start(['bench', tiny, '--prompt', '8', '--rounds', '1000', '--tokens', '10'])
  await new Promise<void>((resolve) => {
    program.child.stderr.on('data', () => program.stderr.includes('measuring') && resolve())
  })
  program.child.kill('SIGINT')
  t.equal(await program.ended, 130)
})
