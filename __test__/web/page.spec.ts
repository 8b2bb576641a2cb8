import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import express from 'express'
import type { BrowserContext, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { createServer } from '../../src/server/app.js'
import { browse, chromiumPath } from '../helpers/browser.js'
import { FakeModel } from '../helpers/fake-model.js'
import { serve, until } from '../helpers/http.js'

const skip = chromiumPath === undefined ? 'SKIPPED: there is no Chromium on this machine' : false
const axe = await readFile(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

interface Scene {
  context: BrowserContext
  page: Page
  model: FakeModel
  /** Addresses of other origins that the page asked for. */
  foreign: string[]
  /** Uncaught errors, and what the security policy refused. */
  complaints: string[]
  url: string
}

async function scene(t: Test, size: Parameters<typeof browse>[1] = { width: 1200, height: 800 }): Promise<Scene> {
  const model = new FakeModel({ contextLength: 4096 })
  const { url } = await serve(t, model)
  const context = await browse(t, size)
  const foreign: string[] = []
  const complaints: string[] = []
  context.on('request', (request) => {
    const target = request.url()
    if (!target.startsWith(`${url}/`) && !/^(data|blob):/.test(target)) foreign.push(target)
  })
  const page = await context.newPage()
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()))
  await page.goto(url)
  await page.locator('#send:not([disabled])').waitFor()
  return { context, page, model, foreign, complaints, url }
}

async function ask(page: Page, text: string): Promise<void> {
  await page.locator('#draft').fill(text)
  await page.keyboard.press('Enter')
}

const lastAnswer = (page: Page) => page.locator('article.assistant').last()
const finished = (page: Page, n: number) =>
  page
    .locator('.stats')
    .nth(n - 1)
    .waitFor()

async function checkAxe(t: Test, page: Page): Promise<void> {
  await page.evaluate(axe)
  const serious = await page.evaluate(async () => {
    const { violations } = await (globalThis as any).axe.run()
    return violations
      .filter((v: any) => v.impact === 'serious' || v.impact === 'critical')
      .map((v: any) => `${v.id}: ${v.nodes.map((n: any) => n.html).join(' ')}`)
  })
  t.same(serious, [])
}

t.test('the page is small, and the policy lets it load only itself', { skip }, async (t) => {
  const { url } = await serve(t)
  const page = await fetch(url)
  t.match(page.headers.get('content-security-policy'), /default-src 'none'; script-src 'self'/)
  t.equal((await fetch(url, { method: 'POST' })).status, 405)
  let bytes = 0
  const seen = new Set<string>()
  const load = async (path: string): Promise<void> => {
    if (seen.has(path)) return
    seen.add(path)
    const response = await fetch(new URL(path, url))
    t.equal(response.status, 200, path)
    const text = await response.text()
    bytes += gzipSync(text).length
    const base = new URL(path, url)
    for (const [, link] of text.matchAll(/(?:src|href|from)\s*=?\s*["']([\w./-]+\.(?:js|css|svg))["']/g)) {
      await load(new URL(link ?? '', base).pathname)
    }
  }
  await load('/')
  t.ok(seen.size > 10, [...seen].join(' '))
  t.ok(bytes < 150_000, `${bytes} bytes compressed`)
})

t.test('an answer streams in, reasoning folds, and the conversation is there after a reload', { skip }, async (t) => {
  const { page, model, foreign, complaints } = await scene(t)
  let more = false
  const go = (): void => void (more = true)
  model.script = function* () {
    yield { type: 'reasoning', text: 'Let me think. ' }
    while (!more) yield { type: 'wait', ms: 5 }
    yield { type: 'content', text: 'The answer is **391**.' }
    more = false
    while (!more) yield { type: 'wait', ms: 5 }
    yield { type: 'content', text: ' Yes.' }
  }
  await ask(page, 'What is 17 * 23?')
  const answer = lastAnswer(page)
  await answer.locator('details[open] >> text=Let me think.').waitFor()
  t.equal(await answer.locator('summary').textContent(), 'Thinking…')
  go()
  await answer.locator('strong >> text=391').waitFor()
  t.equal(await answer.locator('details').getAttribute('open'), null, 'folded')
  t.notMatch(await answer.locator('.body').textContent(), /Yes/, 'in pieces')
  go()
  await finished(page, 1)
  t.match(await answer.locator('.body').textContent(), /The answer is 391\. Yes\./)
  t.match(await answer.locator('summary').textContent(), /^Thought for \d+\.\d s · 1 token$/)
  t.match(await answer.locator('.stats').textContent(), /first token .* s · .*16 \+ 3 tokens/)
  t.match(await page.locator('#context').textContent(), /19 of 4096 tokens/)
  await checkAxe(t, page)
  await page.locator('#draft').fill('a draft that must not be lost')
  await page.reload()
  await page.locator('article >> text=The answer is').waitFor()
  t.equal(await page.locator('#draft').inputValue(), 'a draft that must not be lost')
  t.equal(await page.locator('#conversations li').count(), 1)
  t.same([foreign, complaints], [[], []])
})

t.test('stopping ends the generation; editing and regenerating keep the other branch', { skip }, async (t) => {
  const { page, model } = await scene(t)
  model.script = function* () {
    for (;;) {
      yield { type: 'wait', ms: 20 }
      yield { type: 'content', text: 'on and on ' }
    }
  }
  await ask(page, 'Never stop')
  // Redrawn all the time, so a locator would never see it stand still.
  const answer = page.locator('article.assistant').last()
  while (!(await answer.textContent())?.includes('on and on')) await page.waitForTimeout(20)
  await page.locator('#stop').click()
  await until(() => model.running === 0)
  t.equal(model.cancelled, 1)
  await page.locator('#send:not([disabled])').waitFor()

  model.script = () => [{ type: 'content', text: 'Second' }]
  await page.locator('article.user >> text=Edit').click()
  await page.locator('article.user textarea').fill('Do stop')
  await page.locator('article.user >> text=Send').click()
  await page.locator('article.assistant >> text=Second').waitFor()
  await finished(page, 1)
  t.same(model.prompts.at(-1)?.messages, [{ role: 'user', content: 'Do stop' }])
  t.match(await page.locator('article.user').textContent(), /2 \/ 2/)
  await page.locator('article.user >> role=button[name="Previous version"]').click()
  await page.locator('article.assistant >> text=on and on').waitFor()
  await page.locator('article.user >> role=button[name="Next version"]').click()
  await page.locator('article.assistant >> text=Second').waitFor()

  model.script = () => [{ type: 'content', text: 'Third' }]
  await page.locator('article.assistant >> text=Regenerate').click()
  await page.locator('article.assistant >> text=Third').waitFor()
  await page.locator('article.assistant >> text=2 / 2').waitFor()
})

t.test('what people and models write never acts', { skip }, async (t) => {
  const { page, model, foreign, complaints } = await scene(t)
  const attack = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
  const links =
    '[a](javascript:window.hit=1) ![b](https://example.com/b.png) <iframe src="https://example.com"></iframe>'
  model.script = () => [
    { type: 'reasoning', text: attack },
    {
      type: 'content',
      text: `${attack}\n\n${links}\n\n<style>body{display:none}</style>\n\n\`\`\`html\n${attack}\n\`\`\``,
    },
    { type: 'tool_call', call: { id: 'call_1', type: 'function', function: { name: attack, arguments: attack } } },
  ]
  await ask(page, attack)
  await finished(page, 1)
  t.equal(await page.evaluate(() => (globalThis as any).hit), undefined)
  t.equal(await page.locator('#messages img, #messages script, #messages iframe, #messages style').count(), 0)
  t.equal(await page.locator('#messages a[href^="javascript"]').count(), 0)
  t.match(await page.locator('article.user .body').textContent(), attack)
  t.ok(await page.locator('#messages').isVisible())
  t.same([foreign, complaints], [[], []])
})

t.test('tools are pasted, called, answered by hand, and the answer goes back', { skip }, async (t) => {
  const { page, model } = await scene(t)
  await page.locator('#open-settings').click()
  await page.locator('[data-setting=tools]').fill('[{"name": "get_weather"')
  t.match(await page.locator('#tools-problem').textContent(), /not JSON/)
  await page.locator('[data-setting=tools]').fill('[{"name": "get_weather", "parameters": {"type": "object"}}]')
  t.equal(await page.locator('#tools-problem').textContent(), '')
  await page.locator('[data-setting=system]').fill('Be brief.')
  await page.locator('[data-setting=temperature]').fill('0,5')
  await checkAxe(t, page)
  await page.locator('dialog .primary').click()
  const call = {
    id: 'call_7',
    type: 'function',
    function: { name: 'get_weather', arguments: '{"city": "Lagos"}' },
  } as const
  model.script = () => [{ type: 'tool_call', call }]
  await ask(page, 'Weather in Lagos?')
  await page.locator('.call >> text=/"city": "Lagos"/').waitFor()
  t.match(model.prompts[0]?.tools, [{ type: 'function', function: { name: 'get_weather' } }])
  t.match(model.params[0], { temperature: 0.5 })
  model.script = () => [{ type: 'content', text: 'It is hot.' }]
  await page.locator('form.call textarea').fill('{"celsius": 33}')
  await page.locator('form.call .primary').click()
  await page.locator('article.assistant >> text=It is hot.').waitFor()
  t.match(model.prompts[1]?.messages, [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Weather in Lagos?' },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'call_7', content: '{"celsius": 33}' },
  ])
})

t.test("a server's error is shown in words, and the message is kept", { skip }, async (t) => {
  const { page, model } = await scene(t)
  await ask(page, 'please refuse me')
  await page.locator('[role=alert] >> text=the template refuses this').waitFor()
  model.script = () => [
    { type: 'content', text: 'half' },
    { type: 'throw', error: new Error('broke') },
  ]
  await page.locator('#new-chat').click()
  await ask(page, 'again')
  await page.locator('article.assistant >> text=half').waitFor()
  await lastAnswer(page).locator('[role=alert]').waitFor()
})

t.test('conversations are searched, renamed, exported and imported', { skip }, async (t) => {
  const { page } = await scene(t)
  for (const text of ['About apples', 'About pears']) {
    await ask(page, text)
    await finished(page, 1)
    await page.locator('#new-chat').click()
  }
  await page.locator('#search').fill('pears')
  t.same(await page.locator('#conversations .open').allTextContents(), ['About pears'])
  await page.locator('#conversations li').hover()
  await page.locator('role=button[name="Rename “About pears”"]').click()
  await page.keyboard.type('Fruit')
  await page.keyboard.press('Enter')
  await page.locator('#search').fill('')
  t.same((await page.locator('#conversations .open').allTextContents()).sort(), ['About apples', 'Fruit'])
  const [file] = await Promise.all([page.waitForEvent('download'), page.locator('#export-all').click()])
  const path = await file.path()
  page.on('dialog', (dialog) => void dialog.accept())
  for (const name of ['About apples', 'Fruit']) {
    const button = page.locator(`role=button[name="Delete “${name}”"]`)
    await page.locator('#conversations li', { hasText: name }).hover()
    await button.click()
    await button.waitFor({ state: 'detached' })
  }
  t.equal(await page.locator('#conversations li').count(), 0)
  await page.locator('#import-file').setInputFiles(path)
  await page.locator('#conversations li').nth(1).waitFor()
  await page.locator('article >> text=Hello').first().waitFor()
})

t.test('a dropped text file goes along; a binary one is refused in words', { skip }, async (t) => {
  const { page, model } = await scene(t)
  await page.locator('#attach-file').setInputFiles([
    { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('line one\n```\ninside') },
    { name: 'picture.png', mimeType: 'image/png', buffer: Buffer.from([0x89, 0x50, 0, 0xff]) },
  ])
  await page.locator('#banner >> text=picture.png is not a text file.').waitFor()
  await ask(page, 'Summarise')
  await finished(page, 1)
  t.match(model.prompts[0]?.messages[0], { content: 'File notes.txt:\n````\nline one\n```\ninside\n````\n\nSummarise' })
})

t.test('a phone: no sideways scrolling, everything reached by keyboard', { skip }, async (t) => {
  const { page } = await scene(t, { width: 390, height: 760 })
  await ask(page, 'Hi')
  await finished(page, 1)
  t.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
  await page.locator('#open-sidebar').focus()
  await page.keyboard.press('Enter')
  t.ok(await page.locator('#conversations li').isVisible())
  await checkAxe(t, page)
  await page.locator('#close-sidebar').focus()
  await page.keyboard.press('Enter')
  await page.locator('#draft').focus()
  await page.keyboard.press('Tab')
  t.equal(await page.evaluate('document.activeElement.id'), 'attach')
})

t.test('while the model loads, the page says so and keeps the draft', { skip }, async (t) => {
  let ready: (model: FakeModel) => void = () => {}
  const model = new Promise<FakeModel>((resolve) => (ready = resolve))
  const { url } = await serve(t, model, {}, { progress: () => ({ phase: 'load', loadedBytes: 25, totalBytes: 100 }) })
  const page = await (await browse(t, { width: 800, height: 600 })).newPage()
  await page.goto(url)
  await page.locator('#banner >> text=25 %').waitFor()
  await page.locator('#draft').fill('waiting')
  t.ok(await page.locator('#send').isDisabled())
  ready(new FakeModel())
  await page.locator('#send:not([disabled])').waitFor()
  t.equal(await page.locator('#draft').inputValue(), 'waiting')
  t.ok(await page.locator('#banner').isHidden())
})

t.test(
  'a touch screen: Enter starts a new line, the button sends; wide tables scroll in themselves',
  { skip },
  async (t) => {
    const { page, model } = await scene(t, { width: 390, height: 760, touch: true })
    const words = ['Fruit', 'Colour', 'Price per kilogram', 'Where it grows best', 'Remarks']
    const row = (cells: string[]): string => `| ${cells.join(' | ')} |\n`
    model.script = () => [{ type: 'content', text: row(words) + row(words.map(() => '---')) + row(words) }]
    await page.locator('#draft').fill('one')
    await page.keyboard.press('Enter')
    await page.keyboard.type('two')
    await page.locator('#send').click()
    await finished(page, 1)
    t.match(model.prompts[0]?.messages[0], { content: 'one\ntwo' })
    t.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
    const lines = `(() => {
    const range = document.createRange()
    range.selectNodeContents(document.querySelector('th'))
    return range.getClientRects().length
  })()`
    t.equal(await page.evaluate(lines), 1, 'a word is not broken')
  },
)

t.test('a page below a path speaks with the app that is mounted there', { skip }, async (t) => {
  const outer = express()
  outer.use('/llm', createServer(new FakeModel()))
  const server = outer.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const page = await (await browse(t, { width: 800, height: 600 })).newPage()
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/llm`)
  await page.locator('#send:not([disabled])').waitFor()
  await ask(page, 'Hi')
  await finished(page, 1)
  t.equal(await lastAnswer(page).locator('.body').textContent(), 'Hello\n')
})
