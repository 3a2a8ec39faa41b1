import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { getEventListeners } from 'node:events'
import { describe, test } from 'node:test'
import type { WebhookAnswer } from '../../lib/webhooks/webhook-sender.ts'
import { startDeafServer } from './_deaf-server.ts'
import { closed, drip, listen, replyWith, startRawReceiver, startReceiver } from './_receiver.ts'
import { assertFailed, createLocalSender, makeRequest, resolveTo, toLookupAddress } from './_setup.ts'

describe('the deadline', () => {
  const timeoutMs = 150

  /** Asserts that a timeout happens no earlier than it should and, on a busy machine, not much later. */
  function assertTimedOut(answer: WebhookAnswer): void {
    assertFailed(answer, 'timeout', /^no response within 150 ms/)
    assert.ok(answer.durationMs >= timeoutMs - 2 && answer.durationMs < 5000, `${answer.durationMs} ms`)
  }

  test('the deadline applies to a name that never resolves', async (context) => {
    let resolveLate = () => {}
    const sender = createLocalSender(context, {
      timeoutMs,
      lookup: (hostname, options, callback) => {
        resolveLate = () => resolveTo('127.0.0.1')(hostname, options, callback)
      },
    })
    const answer = await sender.send(makeRequest('http://receiver.test:8080'))
    assertTimedOut(answer)
    assert.equal(answer.timings?.dnsMs, null)
    resolveLate()
    await new Promise(setImmediate)
    assert.equal(answer.timings?.dnsMs, null)
  })

  test('the deadline applies to a server that never accepts', async (context) => {
    const port = await startDeafServer(context)
    const answer = await createLocalSender(context, { timeoutMs }).send(
      makeRequest(`http://127.0.0.1:${port}`),
    )
    assertTimedOut(answer)
    assert.equal(answer.timings?.connectMs, null)
  })

  test('the deadline applies to an endless handshake and leaves no connection', async (context) => {
    const receiver = await startRawReceiver(context, listen, 'https')
    const accepted = receiver.nextSocket()
    const answer = await createLocalSender(context, { timeoutMs }).send(makeRequest(receiver.origin))
    assertTimedOut(answer)
    assert.ok(answer.timings?.connectMs)
    assert.equal(answer.timings.tlsMs, null)
    await closed(await accepted)
  })

  test('the deadline applies to a server that never responds, and leaves no connection', async (context) => {
    const receiver = await startRawReceiver(context, listen)
    const accepted = receiver.nextSocket()
    const answer = await createLocalSender(context, { timeoutMs }).send(makeRequest(receiver.origin))
    assertTimedOut(answer)
    assert.equal(answer.timings?.firstByteMs, null)
    await closed(await accepted)
  })

  test('the deadline applies to headers that arrive bit by bit', async (context) => {
    const receiver = await startRawReceiver(context, drip('HTTP/1.1 200 OK\r\n', 'X-A: b\r\n'))
    const answer = await createLocalSender(context, { timeoutMs }).send(makeRequest(receiver.origin))
    assertTimedOut(answer)
    assert.ok(answer.timings?.firstByteMs)
  })

  test('the deadline applies to endless 1xx responses', async (context) => {
    const receiver = await startRawReceiver(context, drip('', 'HTTP/1.1 102 Processing\r\n\r\n'))
    assertTimedOut(await createLocalSender(context, { timeoutMs }).send(makeRequest(receiver.origin)))
  })

  for (const [what, start, drop] of [
    ['of known length', 'HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n', 'a'],
    ['in chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', '1\r\na\r\n'],
    ['until the connection ends', 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n', 'a'],
  ] as const) {
    test(`the deadline ends a body ${what} that arrives bit by bit, but the status counts`, async (context) => {
      const receiver = await startRawReceiver(context, drip(start, drop))
      const accepted = receiver.nextSocket()
      const answer = await createLocalSender(context, { timeoutMs }).send(makeRequest(receiver.origin))
      assert.deepEqual([answer.status, answer.error], [200, null])
      assert.ok(answer.durationMs >= timeoutMs - 2, `${answer.durationMs} ms`)
      assert.match(answer.bodyExcerpt, /^a+$/)
      await closed(await accepted)
    })
  }

  test('the deadline applies while waiting for a connection', async (context) => {
    const receiver = await startRawReceiver(context, listen)
    const sender = createLocalSender(context, { timeoutMs, maxConnectionsPerOrigin: 1 })
    const answers = await Promise.all([1, 2, 3].map(() => sender.send(makeRequest(receiver.origin))))
    for (const answer of answers) assertTimedOut(answer)
  })

  test("the deadline of an attempt doesn't affect the next one, which uses a new connection", async (context) => {
    let isFirst = true
    const receiver = await startReceiver(context, (response) => {
      if (!isFirst) response.end('ok')
      isFirst = false
    })
    const sender = createLocalSender(context, { timeoutMs })
    assertTimedOut(await sender.send(makeRequest(receiver.origin)))
    assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
    assert.equal(receiver.accepted, 2)
  })
})

describe('the signal', () => {
  test('a signal that is already aborted ends an attempt before it starts', async (context) => {
    const receiver = await startReceiver(context)
    const answer = await createLocalSender(context).send(makeRequest(receiver.origin), AbortSignal.abort())
    assertFailed(answer, 'interrupted')
    assert.equal(receiver.accepted, 0)
  })

  test('the signal ends an attempt during the lookup', async (context) => {
    const controller = new AbortController()
    const sender = createLocalSender(context, {
      lookup: (_hostname, _options, callback) => {
        controller.abort()
        callback(null, [toLookupAddress('127.0.0.1')])
      },
    })
    const receiver = await startReceiver(context)
    const answer = await sender.send(makeRequest(`http://receiver.test:${receiver.port}`), controller.signal)
    assertFailed(answer, 'interrupted')
    assert.equal(receiver.requests.length, 0)
  })

  test('the signal ends an attempt waiting for the response, and closes the connection', async (context) => {
    const controller = new AbortController()
    const receiver = await startRawReceiver(context, (socket) =>
      socket.once('data', () => controller.abort()),
    )
    const accepted = receiver.nextSocket()
    const answer = await createLocalSender(context).send(makeRequest(receiver.origin), controller.signal)
    assertFailed(answer, 'interrupted')
    await closed(await accepted)
  })

  test('the signal ends an attempt waiting for the rest of the body, but the status counts', async (context) => {
    const controller = new AbortController()
    const abort = (): void => void setImmediate(() => controller.abort())
    subscribe('undici:request:headers', abort)
    context.after(() => unsubscribe('undici:request:headers', abort))
    const receiver = await startRawReceiver(
      context,
      replyWith('HTTP/1.1 202 OK\r\nContent-Length: 10\r\n\r\nhalf'),
    )
    const accepted = receiver.nextSocket()
    const answer = await createLocalSender(context).send(makeRequest(receiver.origin), controller.signal)
    assert.deepEqual([answer.status, answer.error], [202, null])
    await closed(await accepted)
  })

  test("a signal used by many attempts has one listener, and they don't end each other", async (context) => {
    const warnings: unknown[] = []
    const note = (warning: unknown) => warnings.push(warning)
    process.on('warning', note)
    context.after(() => process.off('warning', note))
    const controller = new AbortController()
    let answerAll = () => {}
    const arrived = new Promise<void>((resolve) => {
      let waiting = 0
      const answer = new Promise<void>((go) => (answerAll = go))
      startReceiver(context, (response) => {
        waiting += 1
        if (waiting === 30) resolve()
        void answer.then(() => response.end())
      }).then((receiver) => start(receiver.origin))
    })
    let attempts: Promise<{ status: number | null }>[] = []
    const sender = createLocalSender(context)
    function start(origin: string): void {
      attempts = Array.from({ length: 30 }, () => sender.send(makeRequest(origin), controller.signal))
    }
    await arrived
    assert.equal(getEventListeners(controller.signal, 'abort').length, 1)
    answerAll()
    assert.deepEqual(new Set((await Promise.all(attempts)).map(({ status }) => status)), new Set([200]))
    controller.abort()
    assert.deepEqual(warnings, [])
  })
})
