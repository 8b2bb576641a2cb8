/** Server-sent events as the OpenAI API frames them: one `data:` line and an empty line each. */

/** Headers of an event stream; the last one keeps proxies from buffering it. */
export const EVENT_STREAM_HEADERS = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-cache',
  'X-Accel-Buffering': 'no',
} as const

/** One event. JSON text never holds a bare line break, so a line is enough. */
export function formatEvent(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

/** The last event of every stream. */
export const DONE_EVENT = 'data: [DONE]\n\n'

/** A line that clients skip and that keeps proxies from cutting a silent connection. */
export const KEEP_ALIVE_COMMENT = ': keep-alive\n\n'
