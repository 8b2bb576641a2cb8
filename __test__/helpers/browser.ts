import { existsSync } from 'node:fs'
import { chromium, type BrowserContext } from 'playwright-core'
import type { Test } from 'tap'
import { temporaryFolder } from './temporary.js'

const PLACES = [
  process.env.CHROMIUM_PATH ?? '',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]

/** Where Chromium is on this machine. */
export const chromiumPath = PLACES.find((path) => path !== '' && existsSync(path))

const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
]

/** A fresh browser profile that goes away with its test. */
export async function browse(
  t: Test,
  options: { width: number; height: number; dark?: boolean; touch?: boolean },
): Promise<BrowserContext> {
  const profile = await temporaryFolder()
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: chromiumPath ?? '',
    args: FLAGS,
    viewport: { width: options.width, height: options.height },
    colorScheme: options.dark ? 'dark' : 'light',
    ...(options.touch ? { hasTouch: true, isMobile: true } : {}),
    acceptDownloads: true,
  })
  t.teardown(() => context.close())
  return context
}
