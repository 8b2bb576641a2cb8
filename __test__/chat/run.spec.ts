import { deepEqual, equal } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { ChatParser } from '../../src/chat/parser.js'
import { prepareChat, runChat, runCompletion } from '../../src/chat/run.js'
import type { ChatEvent, ChatParams, PromptParams } from '../../src/chat/types.js'
import type { GenerateParams, TokenEngine, TokenEvent } from '../../src/engine/types.js'
import { loadText } from '../../src/text/load.js'
import { wellFormed } from '../../src/text/str.js'
import { fakeInfo } from '../helpers/fake-model.js'
import { fragments } from '../helpers/split.js'
import { byteText, chatGoldens, folderOf, goldenTemplate, qwenTokenizer, turnEnd, turnStart } from '../helpers/text.js'

const text = await byteText()
const user = { role: 'user', content: 'Hi' }

/** An engine that gives these tokens, whatever it is asked, and remembers what it was asked. */
class Script implements TokenEngine {
  readonly info = fakeInfo
  asked: { ids: number[]; params: GenerateParams } | undefined
  given = 0
  left = false

  constructor(
    private readonly tokens: Iterable<number>,
    private readonly finishReason: 'stop' | 'length' = 'stop',
  ) {}

  async *generate(ids: Uint32Array | readonly number[], params: GenerateParams = {}): AsyncGenerator<TokenEvent> {
    this.asked = { ids: [...ids], params }
    this.left = true
    for (const token of this.tokens) {
      params.signal?.throwIfAborted()
      this.given += 1
      yield { token, cachedTokens: 3 }
    }
    this.left = false
    yield { finishReason: this.finishReason, promptTokens: ids.length, cachedTokens: 3, completionTokens: this.given }
  }

  async logits(): Promise<Float32Array[]> {
    return []
  }

  async dispose(): Promise<void> {}
}

async function collect<T>(events: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const event of events) all.push(event)
  return all
}

/** The joined answer of a chat whose raw output has this text, one token a byte. */
async function chat(raw: string, params: Partial<ChatParams> = {}, reason?: 'stop' | 'length') {
  const engine = new Script(text.tokenize(raw), reason)
  const all = { messages: [user], ...params }
  const events = await collect(runChat(engine, text, await prepareChat(text, all), all))
  const join = (type: ChatEvent['type']) => events.map((e) => (e.type === type && 'text' in e ? e.text : '')).join('')
  const finish = events.at(-1)
  if (finish?.type !== 'finish') throw new Error('no finish event')
  const calls = events.flatMap((e) => (e.type === 'tool_call' ? [e.call.function] : []))
  return { engine, reasoning: join('reasoning'), content: join('content'), calls, ...finish }
}

t.test('renders and encodes the golden chats', async (t) => {
  const qwen = await loadText(
    await folderOf({ 'tokenizer.json': await qwenTokenizer(), 'chat_template.jinja': await goldenTemplate() }),
  )
  for (const { name, messages, tools, prompt, ids } of (await chatGoldens()).cases) {
    const prepared = await prepareChat(qwen, { messages, tools } as object as PromptParams)
    t.equal(prepared.text, prompt, name)
    t.same([...prepared.ids], ids, name)
    t.equal(prepared.thinking, true)
  }
})

t.test('the prompt', async (t) => {
  const messages = [{ role: 'developer', content: 'S' }, user]
  const open = await prepareChat(text, { messages })
  t.equal(
    open.text,
    '<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n',
  )
  t.same(open.snapshotAt, [11, 21])
  for (const position of open.snapshotAt) t.equal(open.ids[position], turnStart)

  const closed = await prepareChat(text, { messages, enableThinking: false })
  t.equal(closed.text, open.text + '\n</think>\n\n')
  t.equal(closed.thinking, false)
  t.same(await prepareChat(text, { messages, chatTemplateKwargs: { enable_thinking: false } }), closed)
  const kwargs = { enable_thinking: true, ['__proto__']: 1 }
  t.same(await prepareChat(text, { messages, enableThinking: false, chatTemplateKwargs: kwargs }), open)
})

t.test('usage and finish reasons', async (t) => {
  const answered = await chat('why\n</think>\n\nyes')
  t.match(answered, { reasoning: 'why', content: 'yes', reason: 'stop' })
  // The byte tokenizer has a token for </think>: three letters and a line feed come before it.
  t.same(answered.usage, { promptTokens: 23, completionTokens: 10, cachedTokens: 3, reasoningTokens: 4 })

  const cut = await chat('why', {}, 'length')
  t.match(cut, { reasoning: 'why', content: '', reason: 'length', usage: { completionTokens: 3, reasoningTokens: 3 } })

  const call = '</think><tool_call>{"name":"f"}</tool_call>'
  t.match(await chat(call), { reason: 'tool_calls', calls: [{ name: 'f', arguments: '{}' }] })
  t.match(await chat(call, {}, 'length'), { reason: 'length', calls: [{ name: 'f' }] })

  const off = await chat('yes</think>', { enableThinking: false })
  t.match(off, { reasoning: '', content: 'yes</think>', usage: { reasoningTokens: 0 } })
})

t.test('stop strings cut the raw text and end the generation', async (t) => {
  const stopped = await chat('why\n</think>\n\nyes, STOP and on', { stop: ['', 'STOP'] })
  t.match(stopped, {
    reasoning: 'why',
    content: 'yes, ',
    reason: 'stop',
    stop: 'STOP',
    usage: { completionTokens: 16, cachedTokens: 3 },
  })
  t.equal(stopped.engine.left, true)

  const inside = await chat('why STOP</think>yes', { stop: 'STOP' })
  t.match(inside, {
    reasoning: 'why ',
    content: '',
    reason: 'stop',
    usage: { completionTokens: 8, reasoningTokens: 8 },
  })

  t.match(await chat('why</think>yes ST', { stop: 'STOP' }), { content: 'yes ST', reason: 'stop', stop: undefined })
  t.match(await chat('a</think>yes abc', { stop: ['abcd', 'bc'] }, 'length'), {
    content: 'yes a',
    reason: 'stop',
    stop: 'bc',
  })
})

t.test('what an answer cannot be held to is refused before it is asked for', async (t) => {
  const schema = { type: 'json_schema', schema: { type: 'object' } } as const
  await t.rejects(chat('x', { constraint: schema }), { code: 'INVALID_REQUEST', message: /json_schema/ })
  await t.rejects(chat('x', { strictTools: ['f'] }), { code: 'INVALID_REQUEST', param: 'tools', message: /"f"/ })
  t.match(await chat('x', { constraint: undefined, strictTools: [] }), { reason: 'stop' })
})

t.test('stop must be strings', async (t) => {
  for (const stop of [5, {}, ['a', 5]]) {
    await t.rejects(chat('x', { stop: stop as never }), { code: 'INVALID_REQUEST', param: 'stop' })
  }
})

t.test('the engine gets the sampling fields and the end tokens', async (t) => {
  const signal = new AbortController().signal
  const engine = new Script([])
  const params = { messages: [user], temperature: 0, topK: 1, seed: 7n, maxTokens: 5, stop: 'x' }
  const prompt = await prepareChat(text, params)
  await collect(runChat(engine, text, prompt, params, { signal }))
  t.same(engine.asked?.ids, [...prompt.ids])
  t.match(engine.asked?.params, {
    temperature: 0,
    topK: 1,
    seed: 7n,
    maxTokens: 5,
    snapshotAt: prompt.snapshotAt,
    signal,
  })
  t.ok(engine.asked?.params.endTokens?.includes(turnEnd))
  t.notOk('stop' in (engine.asked?.params ?? {}))
})

t.test('aborting and leaving end the generation', async (t) => {
  const reason = new Error('enough')
  const prompt = await prepareChat(text, { messages: [user] })
  const stop = new AbortController()
  const aborted = new Script(text.tokenize('abcdef'))
  await t.rejects(async () => {
    for await (const event of runChat(aborted, text, prompt, { messages: [user] }, { signal: stop.signal })) {
      t.equal(event.type, 'reasoning')
      stop.abort(reason)
    }
  }, reason)
  const left = new Script(text.tokenize('abcdef'))
  for await (const _event of runChat(left, text, prompt, { messages: [user] })) break
  t.equal(left.left, true)
  t.equal(left.given, 1)
})

t.test('completions are raw', async (t) => {
  const engine = new Script([...text.tokenize('<think>a</think><tool_call>\n'), turnEnd, 300, 0xf0, 0x9f])
  const events = await collect(runCompletion(engine, text, [1, 2], { stop: null }))
  t.equal(events.map((e) => (e.type === 'content' ? e.text : '')).join(''), '<think>a</think><tool_call>\n\uFFFD')
  t.match(events.at(-1), { type: 'finish', reason: 'stop', usage: { promptTokens: 2, reasoningTokens: 0 } })
})

const words = ['</think>', '<tool_call>{"name":"f"}</tool_call>', 'é', '🍁', '\n', ' ', 'STOP', 'ST', '<']
t.test('an answer that comes byte by byte reads as the whole text does', async () => {
  await fc.assert(
    fc.asyncProperty(fragments(words), async (raw) => {
      const streamed = await chat(raw, { stop: 'STOP' })
      const parser = new ChatParser({ thinking: true })
      const parts = [...parser.push(wellFormed(raw).split('STOP')[0] ?? ''), ...parser.end()]
      const join = (type: string) =>
        parts.map((part) => (part.type === type && 'text' in part ? part.text : '')).join('')
      deepEqual([streamed.reasoning, streamed.content], [join('reasoning'), join('content')])
      equal(streamed.calls.length, parser.toolCalls)
    }),
    { numRuns: 200 },
  )
})
