// Makes docs/chat.png: the chat page in Chromium, talking with the small model. Needs a built clone.
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer as createHttp } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { Maple, createServer } from '../../dist/index.js'

const model = await Maple.load('sprout', { cacheFolder: false })
const server = createHttp(createServer(model, { temperature: 0 }))
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const profile = mkdtempSync(join(tmpdir(), 'maple-screenshot-'))
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
  args: [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
  ],
  viewport: { width: 960, height: 810 },
  colorScheme: 'light',
})
try {
  const page = await browser.newPage()
  page.setDefaultTimeout(120_000)
  await page.goto(`http://127.0.0.1:${server.address().port}`)
  await page.locator('#send:not([disabled])').waitFor()
  for (const [i, question] of ['What is 17 * 23?', 'Now add 9.'].entries()) {
    await page.locator('#draft').fill(question)
    await page.keyboard.press('Enter')
    await page.locator('.stats').nth(i).waitFor()
  }
  await page.locator('article.assistant summary').first().click()

  await page.screenshot({ path: 'docs/chat.png' })
} finally {
  await browser.close()
  rmSync(profile, { recursive: true, force: true })
  server.closeAllConnections()
  server.close()
  await model.dispose()
}
