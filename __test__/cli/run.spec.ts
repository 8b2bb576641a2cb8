/* eslint-disable no-control-regex -- escape sequences are looked for */
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { fixture } from '../helpers/fixtures.js'
import { FakeServer } from './fake-server.js'
import { start, startInTerminal } from './program.js'

t.setTimeout(120_000)

async function setUp(t: Test): Promise<FakeServer> {
  const server = await FakeServer.start()
  t.teardown(() => server.stop())
  return server
}

t.test('the answer, and nothing else, is on stdout; the settings reach the model', async (t) => {
  const server = await setUp(t)
  const flags = [
    '--url',
    server.url,
    '--system',
    'Be brief.',
    '--no-think',
    '--seed',
    '7',
    '--stop',
    'END',
    '--temperature',
    '0.5',
    '--max-new-tokens',
    '99',
  ]
  const program = start(['run', 'Summarise this:', ...flags], {
    input: 'A document.\n',
    env: { MAPLE_API_KEY: 'key' },
  })
  t.equal(await program.ended, 0)
  t.equal(program.stdout, 'Hello, world!\n')
  t.equal(program.stderr, '')
  t.match(server.chats, [
    {
      authorization: 'Bearer key',
      body: {
        model: 'maple-fake',
        messages: [
          { role: 'system', content: 'Be brief.' },
          { role: 'user', content: 'Summarise this:\n\nA document.\n' },
        ],
        seed: 7,
        stop: 'END',
        temperature: 0.5,
        max_tokens: 99,
        chat_template_kwargs: { enable_thinking: false },
      },
    },
  ])
})

t.test('the prompt may come from the pipe alone; an answer that ends its line gets no second end', async (t) => {
  const server = await setUp(t)
  server.script = ['One line.\n']
  const program = start(['run', '--url', `${server.url.slice(7)}/v1/`], { input: 'Why?' })
  t.equal(await program.ended, 0)
  t.equal(program.stdout, 'One line.\n')
  t.match(server.chats[0]?.body, {
    messages: [{ role: 'user', content: 'Why?' }],
    chat_template_kwargs: { enable_thinking: true },
  })
})

t.test('--json prints one object', async (t) => {
  const server = await setUp(t)
  const program = start(['run', '--json', '--url', server.url, 'x'])
  t.equal(await program.ended, 0)
  t.match(JSON.parse(program.stdout), {
    model: 'maple-fake',
    content: 'Hello, world!',
    reasoning_content: 'We think.',
    finish_reason: 'stop',
    usage: {
      prompt_tokens: 7,
      completion_tokens: 5,
      total_tokens: 12,
      prompt_tokens_details: { cached_tokens: 1 },
      completion_tokens_details: { reasoning_tokens: 2 },
    },
    seconds: { first_token: Number, total: Number },
  })
})

t.test('exit codes and messages', async (t) => {
  const server = await setUp(t)
  const url = ['--url', server.url]
  const cases: [string, string[], number, RegExp, { status?: number; script?: (string | number)[] }?][] = [
    ['no command', [], 2, /--help/],
    ['unknown command', ['xyzzy'], 2, /xyzzy/],
    ['misspelt command', ['serv'], 2, /no such command\. Did you mean serve\? See maple-cpu --help\./],
    ['a prompt without quotes', ['run', 'Why', 'not'], 2, /not\. A prompt of several words goes in quotes/],
    ['unknown flag', ['run', 'x', '--fly'], 2, /fly\. See maple-cpu run --help\./],
    ['bad setting', ['run', 'x', ...url, '--temperature', 'hot'], 2, /--temperature.*hot/],
    ['bad seed', ['run', 'x', ...url, '--seed', '1.5'], 2, /--seed/],
    ['bad url', ['run', 'x', '--url', 'ftp://x'], 2, /--url/],
    ['no prompt', ['run', ...url], 2, /no prompt/],
    ['nobody there', ['run', 'x', '--url', 'http://127.0.0.1:9'], 5, /No server answers.*maple-cpu serve/],
    ['key refused', ['run', 'x', ...url], 5, /401: No luck today\. Give its key/, { status: 401 }],
    ['busy', ['run', 'x', ...url], 5, /503: No luck today\./, { status: 503 }],
    ['fails midway', ['run', 'x', ...url], 5, /It broke/, { script: ['Hel', 'error'] }],
    ['cut midway', ['run', 'x', ...url], 5, /broke off/, { script: ['Hel', 50, 'cut'] }],
  ]
  for (const [name, args, code, message, { status = 200, script = ['Hello'] } = {}] of cases) {
    Object.assign(server, { status, script })
    const program = start(args)
    t.equal(await program.ended, code, name)
    t.match(program.stderr, message, name)
    t.equal(program.stderr.trimEnd().split('\n').length, 1, `${name}: one line`)
  }
  for (const args of [['--version'], ['--help'], ['run', '--help'], ['chat', '--help']]) {
    const program = start(args)
    t.equal(await program.ended, 0)
    t.equal(program.stderr, '')
    t.not(program.stdout, '')
  }
})

t.test('a reader that leaves ends it quietly, and frees the server', async (t) => {
  const server = await setUp(t)
  server.script = Array.from({ length: 2000 }, (_, i) => (i % 2 === 0 ? 'word '.repeat(100) : 1))
  const program = start(['run', 'x', '--url', server.url])
  await program.until('word')
  program.child.stdout.destroy()
  t.equal(await program.ended, 0)
  t.equal(program.stderr, '')
  while (server.chats[0]?.left !== true) await delay(5)
})

t.test('Ctrl-C ends it with 130; twice leaves no process', async (t) => {
  const server = await setUp(t)
  server.script = ['Hello', 'hang']
  const program = start(['run', 'x', '--url', server.url])
  await program.until('Hello')
  program.child.kill('SIGINT')
  t.equal(await program.ended, 130)
  t.notMatch(program.stderr, /Error|at /)
  while (server.chats[0]?.left !== true) await delay(5)

  const waiting = start(['run', '--url', server.url], { input: 'open' })
  await delay(300)
  waiting.child.kill('SIGINT')
  waiting.child.kill('SIGINT')
  t.match(
    String(await waiting.ended),
    /^(130|SIGINT)$/,
    'also while it reads its input, or before it could set itself up',
  )
})

t.test('colours and reasoning on a terminal only, and nothing the model could do to it', async (t) => {
  const server = await setUp(t)
  server.script = ['reasoning:Hm.', 'Red \x1b[31m and \x1b]0;title\x07', '\u009b2J', ' done']
  const terminal = startInTerminal(['run', 'x', '--url', server.url])
  t.equal(await terminal.ended, 0)
  t.match(terminal.stdout, '\x1b[2mHm.\x1b[22m')
  t.match(terminal.stdout, 'Red [31m and ]0;title2J done')
  t.match(terminal.stdout, /5 tokens \(2 of reasoning\)/)
  for (const env of [{ NO_COLOR: '1' }, { TERM: 'dumb' }]) {
    const plain = startInTerminal(['run', 'x', '--url', server.url], env)
    t.equal(await plain.ended, 0)
    t.notMatch(plain.stdout, /\x1b/)
  }
  const piped = start(['run', 'x', '--url', server.url])
  t.equal(await piped.ended, 0)
  t.equal(piped.stdout, 'Red \x1b[31m and \x1b]0;title\x07\u009b2J done\n', 'a pipe gets the bytes as they are')
})

t.test('without a server the model is loaded here, and gone when the answer is', async (t) => {
  const flags = [
    '--model-path',
    fixture('tiny-hf-sharded'),
    '--cache',
    t.testdir({}),
    '--temperature',
    '0',
    '--max-new-tokens',
    '6',
    '--no-think',
  ]
  const program = start(['run', '--json', 'Hello', ...flags])
  t.equal(await program.ended, 0, program.stderr)
  const answer = JSON.parse(program.stdout) as { usage: { completion_tokens: number }; finish_reason: string }
  t.equal(answer.finish_reason, 'length')
  t.equal(answer.usage.completion_tokens, 6)
  const missing = start(['run', 'x', '--model-path', './nowhere'])
  t.equal(await missing.ended, 3)
  const long = start(['run', 'x', ...flags, '--max-new-tokens', '20000'])
  await long.until(/./)
  long.child.kill('SIGINT')
  t.equal(await long.ended, 130, 'Ctrl-C in the middle of an answer')
})

t.test('where no model is named and none is here, the one that comes along answers', async (t) => {
  const folder = t.testdir({})
  const env = { HF_HOME: folder, MAPLE_CACHE: folder, HF_HUB_OFFLINE: '1' }
  const program = start(['run', '--no-think', '--max-new-tokens', '8', 'Say hello in French.'], { env })
  t.equal(await program.ended, 0, program.stderr)
  t.match(program.stdout, /\w/)
  t.match(program.stderr, /maple-preview is not on this machine; sprout/)
  const named = start(['run', 'x'], { env: { ...env, MAPLE_MODEL_PATH: 'deepgrove/maple-preview' } })
  t.equal(await named.ended, 3, 'but never instead of one that was named')
})
