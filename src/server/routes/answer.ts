import type { Request, Response } from 'express'
import type { ChatEvent } from '../../chat/types.js'
import type { Slot } from '../../engine/queue.js'
import type { StreamForm } from '../../protocols/protocol.js'
import { generationFailed, toApiError } from '../../wire/errors.js'
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

/** What is to be answered. */
export interface AnswerWork {
  /** The form of the stream, if the answer is one. */
  readonly stream: StreamForm | undefined
  /** Sets the model to work. */
  events(): AsyncIterable<ChatEvent>
  /** Reads the events into the body of an answer that is not streamed. */
  collect(events: AsyncIterable<ChatEvent>): Promise<object>
}

/**
 * Waits for a slot, lets the model work, and writes the answer in the form that was asked for. The slot is given back
 * on every path. Errors before the first byte are thrown; later ones become an event in the stream.
 */
export async function answer(state: ServerState, res: Response, signal: AbortSignal, work: AnswerWork): Promise<void> {
  const { config, queue, logger } = state
  const stream = work.stream
    ? new EventStream(res, signal, work.stream, {
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
      await stream.run(work.events())
    } else {
      const body = await work.collect(work.events())
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
