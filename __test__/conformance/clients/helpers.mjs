// What the JavaScript clients' tests share.
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

export const cases = JSON.parse(readFileSync(new URL('cases.json', import.meta.url), 'utf8'))
export const { SERVER_URL: server, SERVER_KEY: apiKey } = process.env
export const baseURL = `${server}/v1`

const look = async (path) => (await fetch(server + path)).json()

/** Runs something that aborts an answer; ends when the server has seen one more answer cut off and works on none. */
export async function cutsOff(action) {
  const before = await look('/aborted')
  await action()
  while ((await look('/aborted')) <= before || (await look('/health')).active > 0) await delay(20)
}
