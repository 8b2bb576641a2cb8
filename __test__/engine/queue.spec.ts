import t from 'tap'
import { RequestQueue } from '../../src/engine/queue.js'

const overloaded = { code: 'ENGINE_OVERLOADED' }

t.test('one runs, others follow in the order they came', async (t) => {
  const queue = new RequestQueue({ maxDepth: 8, timeoutMs: 60_000 })
  const order: number[] = []
  const first = await queue.acquire()
  const others = [1, 2, 3].map((n) =>
    queue.acquire().then((slot) => {
      order.push(n)
      t.equal(queue.active, 1)
      slot.release()
    }),
  )
  t.same([queue.active, queue.depth], [1, 3])
  first.release()
  first.release()
  await Promise.all(others)
  t.same(order, [1, 2, 3])
  t.same([queue.active, queue.depth], [0, 0])
})

t.test('several slots', async (t) => {
  const queue = new RequestQueue({ slots: 2, maxDepth: 0, timeoutMs: 60_000 })
  const [a, b] = await Promise.all([queue.acquire(), queue.acquire()])
  await t.rejects(queue.acquire(), overloaded)
  a.release()
  const c = await queue.acquire()
  b.release()
  c.release()
  t.equal(queue.active, 0)
})

t.test('a full queue, a queue that nobody may wait in, and a wait of no time', async (t) => {
  for (const limits of [
    { maxDepth: 0, timeoutMs: 60_000 },
    { maxDepth: 4, timeoutMs: 0 },
  ]) {
    const queue = new RequestQueue(limits)
    const slot = await queue.acquire()
    await t.rejects(queue.acquire(), overloaded)
    slot.release()
    ;(await queue.acquire()).release()
  }
  const queue = new RequestQueue({ maxDepth: 1, timeoutMs: 60_000 })
  const slot = await queue.acquire()
  const waiting = queue.acquire()
  await t.rejects(queue.acquire(), overloaded)
  slot.release()
  ;(await waiting).release()
})

t.test('a wait that takes too long is given up', async (t) => {
  const queue = new RequestQueue({ maxDepth: 4, timeoutMs: 10 })
  const slot = await queue.acquire()
  await t.rejects(queue.acquire(), overloaded)
  t.same([queue.active, queue.depth], [1, 0])
  slot.release()
  ;(await queue.acquire()).release()
})

t.test('an abort frees the place in the queue', async (t) => {
  const queue = new RequestQueue({ maxDepth: 4, timeoutMs: 60_000 })
  const reason = new Error('gone')
  await t.rejects(queue.acquire(AbortSignal.abort(reason)), reason)
  const slot = await queue.acquire()
  const controller = new AbortController()
  const waiting = queue.acquire(controller.signal)
  controller.abort(reason)
  await t.rejects(waiting, reason)
  t.equal(queue.depth, 0)
  slot.release()
  t.equal(queue.active, 0)
})

t.test('an abort after the grant is not the queue’s business', async (t) => {
  const queue = new RequestQueue({ maxDepth: 4, timeoutMs: 60_000 })
  const controller = new AbortController()
  const slot = await queue.acquire(controller.signal)
  controller.abort()
  t.equal(queue.active, 1)
  slot.release()
})

t.test('closing turns the waiting away and lets the running finish', async (t) => {
  const queue = new RequestQueue({ maxDepth: 4, timeoutMs: 60_000 })
  await queue.idle()
  const slot = await queue.acquire()
  const waiting = queue.acquire()
  const reason = new Error('closing')
  queue.close(reason)
  await t.rejects(waiting, reason)
  await t.rejects(queue.acquire(), reason)
  const idle = queue.idle()
  slot.release()
  await idle
  t.same([queue.active, queue.depth], [0, 0])
})
