import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { browse, chromiumPath } from '../helpers/browser.js'
import { FakeModel } from '../helpers/fake-model.js'
import { serve } from '../helpers/http.js'

const skip = chromiumPath === undefined ? 'SKIPPED: there is no Chromium on this machine' : false
const axe = await readFile(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')

t.test('served under a strict policy, without the key, at one path only', async (t) => {
  const { url } = await serve(t, undefined, { apiKey: 'k' })
  const page = await fetch(`${url}/docs`)
  t.equal(page.status, 200)
  t.match(page.headers.get('content-type'), /^text\/html/)
  t.match(page.headers.get('content-security-policy'), /default-src 'none'; script-src 'self'/)
  const markup = await page.text()
  t.notMatch(markup, /https?:/)
  for (const [, file] of markup.matchAll(/(?:src|href)="([\w.]+)"/g))
    t.equal((await fetch(`${url}/${file}`)).status, 200, String(file))
  const slash = await fetch(`${url}/docs/`, { redirect: 'manual' })
  t.equal(slash.status, 308)
  t.equal(new URL(slash.headers.get('location') ?? '', `${url}/docs/`).href, `${url}/docs`)
  t.equal((await fetch(`${url}/docs`, { method: 'POST' })).status, 405)
})

t.test('shows every route and field, and sends requests', { skip }, async (t) => {
  const model = new FakeModel()
  const { url } = await serve(t, model, { apiKey: 'sesame' })
  const document: any = await (await fetch(`${url}/openapi.json`)).json()
  for (const size of [
    { width: 1200, height: 800 },
    { width: 360, height: 700 },
  ]) {
    const context = await browse(t, size)
    const complaints: string[] = []
    context.on('request', (request) => request.url().startsWith(`${url}/`) || complaints.push(request.url()))
    const page = await context.newPage()
    page.on('pageerror', (error) => complaints.push(error.message))
    page.on('console', (message) => message.text().includes('Security Policy') && complaints.push(message.text()))
    await page.goto(`${url}/docs`)
    await page.locator('section').first().waitFor()
    const text = (await page.locator('main').textContent()) ?? ''
    for (const [path, operations] of Object.entries<any>(document.paths)) {
      for (const { operationId, summary } of Object.values<any>(operations)) {
        t.ok(text.includes(path) && text.includes(summary), path)
        t.equal(await page.locator(`nav a[href="#${operationId}"]`).count(), 1)
      }
    }
    for (const name of ['ChatCompletionRequest', 'ChatMessage', 'CompletionRequest', 'ChatCompletionChunk', 'Error']) {
      for (const field of Object.keys(document.components.schemas[name].properties)) t.ok(text.includes(field), field)
    }

    const chat = page.locator('#createChatCompletion')
    const output = chat.getByLabel('Answer to Answer a conversation')
    const shown = (text: string) => output.filter({ hasText: text }).waitFor()
    await chat.getByRole('button', { name: 'Send' }).click()
    await shown('"code": "invalid_api_key"')
    await page.getByLabel('API key').fill('sesame')
    await chat.getByRole('button', { name: 'Send' }).click()
    await shown('"object": "chat.completion"')
    await chat.getByRole('combobox').selectOption('stream')
    await chat.getByRole('button', { name: 'Send' }).click()
    await shown('data: [DONE]')
    model.script = () => [
      { type: 'content', text: '<img src=x onerror=alert(1)>' },
      { type: 'wait', ms: 100_000 },
    ]
    await chat.getByRole('button', { name: 'Send' }).click()
    await shown('onerror')
    t.equal(await page.locator('img').count(), 0)
    await chat.getByRole('button', { name: 'Stop' }).click()
    await chat.getByText('Stopped.').waitFor()
    model.script = () => [{ type: 'content', text: 'Hello' }]

    t.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true, 'no sideways scrolling')
    await page.evaluate(axe)
    const serious = await page.evaluate(async () => {
      const { violations } = await (globalThis as any).axe.run()
      return violations
        .filter((v: any) => v.impact === 'serious' || v.impact === 'critical')
        .map((v: any) => `${v.id}: ${v.nodes.map((n: any) => n.html).join(' ')}`)
    })
    t.same(serious, [])
    t.same(complaints, [])
    if (process.env['SHOT']) await page.screenshot({ path: `/tmp/docs-${size.width}.png` })
  }
})
