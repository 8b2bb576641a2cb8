import type { Request, Response } from 'express'
import { generationFailed, toApiError } from '../../openai/errors.js'
import type { Slot } from '../../engine/queue.js'
import { EventStream } from '../event-stream.js'
import { recordOf } from '../record.js'
import type { ServerState } from '../state.js'

/** Why a generation is cancelled when its reader is gone. */
class ClientGone extends Error {
  override readonly name = 'ClientGone'
}

/** A signal that aborts when the connection closes before the answer is complete, or is closed already. */
export function connectionSignal(req: Request, res: Response): AbortSignal {
  const controller = new AbortController()
  const { socket } = req
  const onClose = (): void => {
    if (!res.writableFinished) controller.abort(new ClientGone('the client closed the connection'))
  }
  // The socket rather than the response: a pipelined response is not told when its connection goes.
  socket.once('close', onClose)
  res.once('close', () => {
    socket.off('close', onClose)
    onClose()
  })
  if (socket.destroyed || res.destroyed) onClose()
  return controller.signal
}

/** The two forms of one answer. */
export interface Answer {
  readonly stream: boolean
  /** The whole answer as one object. */
  collect(): Promise<object>
  /** The answer as events; the first may come before the model is asked. */
  chunks(): AsyncIterable<object>
}

/**
 * Waits for a slot, lets the model work, and writes the answer in the form that was asked for. The slot is given back
 * on every path. Errors before the first byte are thrown; later ones become an event in the stream.
 */
export async function answer(state: ServerState, res: Response, signal: AbortSignal, work: Answer): Promise<void> {
  const { config, queue, logger } = state
  const stream = work.stream
    ? new EventStream(res, signal, {
        keepAliveMs: config.keepAliveInterval * 1000,
        sendTimeoutMs: config.sendTimeout * 1000,
      })
    : undefined
  const record = recordOf(res)
  let slot: Slot | undefined
  try {
    record.marks.queued = performance.now()
    // A stream that has been sent a comment while it waited cannot be tried on another server, so it keeps its place
    // when this one stops.
    slot = await queue.acquire(signal, () => stream?.opened ?? false)
    record.marks.granted = performance.now()
    if (stream) {
      stream.open()
      for await (const chunk of work.chunks()) await stream.send(chunk)
      stream.end()
    } else {
      const body = await work.collect()
      res.json(body)
    }
  } catch (thrown) {
    if (signal.aborted) {
      res.destroy()
      return
    }
    const error = slot ? generationFailed(thrown) : toApiError(thrown)
    if (!stream?.opened) throw error
    record.fail(error)
    logger.error({ id: record.id, err: thrown }, error.message)
    stream.fail(error)
  } finally {
    stream?.stop()
    slot?.release()
  }
}
