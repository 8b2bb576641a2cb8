/** Server-sent events as frames of text. */

/** Headers of an event stream; the last one keeps proxies from buffering it. */
export const EVENT_STREAM_HEADERS = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-cache',
  'X-Accel-Buffering': 'no',
} as const

/** One event, with its type on a line of its own where it has one. JSON text never holds a bare line break. */
export function formatEvent(value: object, type?: string): string {
  return `${type === undefined ? '' : `event: ${type}\n`}data: ${JSON.stringify(value)}\n\n`
}

/** A line that clients skip and that keeps proxies from cutting a silent connection. */
export const KEEP_ALIVE_COMMENT = ': keep-alive\n\n'
