import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Conversation } from '../../src/cli/conversation.js'
import { FakeServer } from './fake-server.js'
import { start, startInTerminal } from './program.js'

t.setTimeout(120_000)

async function setUp(t: Test): Promise<FakeServer> {
  const server = await FakeServer.start()
  t.teardown(() => server.stop())
  return server
}

t.test('a conversation through a pipe: each line is a turn, commands change what follows', async (t) => {
  const server = await setUp(t)
  const folder = t.testdir({ 'taken.json': '' })
  const lines = [
    '/system Be kind.',
    'First',
    'Second \\',
    'goes on',
    '/undo',
    '/think off',
    '//help me',
    `/save ${join(folder, 'chat.json')}`,
    `/save ${join(folder, 'chat.md')}`,
    `/save ${join(folder, 'taken.json')}`,
    '/reset',
    '',
    'Third',
    '/exit',
    'never sent',
  ]
  const program = start(['chat', '--url', server.url], { input: lines.join('\n') })
  t.equal(await program.ended, 0, program.stderr)
  const asked = server.chats.map(({ body }) => body.messages.map(({ role, content }) => `${role}: ${content}`))
  t.strictSame(asked, [
    ['system: Be kind.', 'user: First'],
    ['system: Be kind.', 'user: First', 'assistant: Hello, world!', 'user: Second \ngoes on'],
    ['system: Be kind.', 'user: First', 'assistant: Hello, world!', 'user: /help me'],
    ['system: Be kind.', 'user: Third'],
  ])
  t.strictSame(
    server.chats.map(({ body }) => body['chat_template_kwargs']),
    [true, true, false, false].map((enable_thinking) => ({ enable_thinking })),
  )
  t.equal(program.stdout, '[reasoning] We think.\n[answer] Hello, world!\n'.repeat(4))
  t.match(program.stderr, /taken\.json is there already/)
  const saved = JSON.parse(readFileSync(join(folder, 'chat.json'), 'utf8')) as { messages: { role: string }[] }
  t.strictSame(
    saved.messages.map(({ role }) => role),
    ['system', 'user', 'assistant', 'user', 'assistant'],
  )
  t.match(
    readFileSync(join(folder, 'chat.md'), 'utf8'),
    /## User\n\nFirst\n\n## Assistant\n\n> We think\.\n\nHello, world!/,
  )
})

t.test('a server that fails takes the question back, and the chat goes on', async (t) => {
  const server = await setUp(t)
  server.script = ['error']
  const program = start(['chat', '--url', server.url], { input: 'open' })
  program.child.stdin.write('One\n')
  while (!program.stderr.includes('It broke')) await delay(5)
  server.script = ['Fine']
  program.child.stdin.end('Two\n')
  t.equal(await program.ended, 0)
  t.strictSame(server.chats.at(-1)?.body.messages, [{ role: 'user', content: 'Two' }])
})

t.test('in a terminal Ctrl-C stops the answer only, and leaves when pressed twice', async (t) => {
  const server = await setUp(t)
  server.script = ['reasoning:Well', 'Half an ans', 'hang']
  const program = startInTerminal(['chat', '--url', server.url])
  await program.until('> ')
  program.child.stdin.write('Question\r')
  await program.until('Half an ans')
  program.child.stdin.write('\x03')
  await program.until('[stopped]')
  server.script = ['Whole answer']
  program.child.stdin.write('Again\r')
  await program.until('Whole answer')
  await program.until('tokens')
  t.match(server.chats[1]?.body.messages, [
    { content: 'Question' },
    { role: 'assistant', content: 'Half an ans' },
    { content: 'Again' },
  ])
  t.equal(server.chats[0]?.left, true)
  program.child.stdin.write('half a line\x03')
  await delay(100)
  program.child.stdin.write('\x03')
  await program.until('once more')
  program.child.stdin.write('\x03')
  t.equal(await program.ended, 0)
  t.equal(server.chats.length, 2)

  const other = startInTerminal(['chat', '--url', server.url])
  await other.until('> ')
  other.child.stdin.write('\x04')
  t.equal(await other.ended, 0, 'Ctrl-D leaves')
})

t.test('a conversation by itself', (t) => {
  const conversation = new Conversation(undefined, true)
  t.match(conversation.take('/nonsense'), { kind: 'say', text: /no command \/nonsense/ })
  t.match(conversation.take('/help'), { kind: 'say', text: /\/reset/ })
  t.match(conversation.take('/system'), { text: /no system prompt/ })
  t.match(conversation.take('/system a'), { text: /Set/ })
  t.strictSame(conversation.messages, [{ role: 'system', content: 'a' }])
  t.match(conversation.take('/system -'), { text: /No system prompt/ })
  t.match(conversation.take('/undo'), { text: /nothing/ })
  t.match(conversation.take('/think maybe'), { text: /on/ })
  t.match(conversation.take('/save'), { text: /Name a file/ })
  t.strictSame(conversation.take('  '), { kind: 'say', text: '' })
  t.strictSame(conversation.take('/quit'), { kind: 'leave' })
  t.strictSame(conversation.messages, [])
  conversation.take('question')
  conversation.answered({ content: '', reasoning: '', toolCalls: [] })
  t.strictSame(conversation.messages, [], 'a question without any answer is taken back')
  conversation.take('one \\')
  t.equal(conversation.isContinued, true)
  t.equal(conversation.dropPending(), true)
  t.equal(conversation.dropPending(), false)
  t.end()
})
