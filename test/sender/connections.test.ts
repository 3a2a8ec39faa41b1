import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { queryObjects } from 'node:v8'
import { Client } from 'undici'
import type { HttpConnection } from '../../lib/sender/connection.ts'
import { createConnectionPool } from '../../lib/sender/connection-pool.ts'
import { startDeadline } from '../../lib/sender/deadline.ts'
import { createWebhookSender } from '../../lib/sender/sender.ts'
import { closed, replyWith, startRawReceiver, startReceiver } from './_receiver.ts'
import { assertFailed, createLocalSender, makeRequest, resolveTo } from './_setup.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

// --- Kept open ---

test('a connection is used for one attempt after another', async (context) => {
  const receiver = await startReceiver(context)
  const sender = createLocalSender(context)
  for (let count = 0; count < 20; count += 1) {
    assert.equal((await sender.send(makeRequest(`${receiver.origin}/${count}`))).status, 200)
  }
  assert.equal(receiver.requests.length, 20)
  assert.equal(receiver.accepted, 1)
})

test('an origin has no more connections than allowed, and every attempt gets its turn', async (context) => {
  const receiver = await startReceiver(context, (response) => setTimeout(() => response.end('ok'), 2))
  const sender = createLocalSender(context, { maxConnectionsPerOrigin: 4 })
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, index) => sender.send(makeRequest(`${receiver.origin}/${index}`))),
  )
  assert.ok(answers.every(({ status }) => status === 200))
  assert.equal(receiver.accepted, 4)
  assert.equal(new Set(receiver.requests.map(({ path }) => path)).size, 50)
})

test("waiting attempts aren't lost if a connection breaks", async (context) => {
  let count = 0
  const receiver = await startReceiver(context, (response) => {
    count += 1
    if (count % 2 === 1) response.destroy()
    else response.end('ok')
  })
  const sender = createLocalSender(context, { maxConnectionsPerOrigin: 1 })
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => sender.send(makeRequest(receiver.origin))),
  )
  assert.ok(answers.every(({ status, error }) => status === 200 || error === 'connection_reset'))
  assert.ok(answers.some(({ status }) => status === 200))
})

test('an attempt interrupted while waiting leaves its place to the next', async (context) => {
  let answer = () => {}
  const receiver = await startReceiver(context, (response, { path }) => {
    if (path === '/first') answer = () => response.end('ok')
    else response.end('ok')
  })
  const sender = createLocalSender(context, { maxConnectionsPerOrigin: 1 })
  const controller = new AbortController()
  const accepted = receiver.nextSocket()
  const first = sender.send(makeRequest(`${receiver.origin}/first`))
  const second = sender.send(makeRequest(`${receiver.origin}/second`), controller.signal)
  const third = sender.send(makeRequest(`${receiver.origin}/third`))
  await accepted
  controller.abort()
  assertFailed(await second, 'interrupted')
  while (receiver.requests.length === 0) await new Promise(setImmediate)
  answer()
  assert.deepEqual([(await first).status, (await third).status], [200, 200])
  assert.deepEqual(
    receiver.requests.map(({ path }) => path),
    ['/first', '/third'],
  )
})

test('a connection that the other side wants to close is not used again', async (context) => {
  for (const header of [{ Connection: 'close' }, { 'Keep-Alive': 'timeout=1' }]) {
    // 1 second is no more than the margin before the other side closes the connection.
    const receiver = await startReceiver(context, (response) => response.writeHead(200, header).end('ok'))
    const sender = createLocalSender(context)
    for (let count = 0; count < 3; count += 1) {
      assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
    }
    assert.equal(receiver.accepted, 3, JSON.stringify(header))
  }
})

test('a connection that the other side has closed between attempts is not used again', async (context) => {
  const receiver = await startRawReceiver(context, replyWith(OK))
  const sender = createLocalSender(context)
  for (let count = 1; count <= 3; count += 1) {
    assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
    assert.equal(receiver.accepted, count)
    for (const socket of receiver.sockets) {
      socket.end()
      await closed(socket)
    }
  }
})

// --- Closed while being used ---

/** Responds to the first request on a connection, and calls `react` when a second request arrives. */
function onSecondRequest(react: (socket: Socket) => void) {
  return (socket: Socket): void => {
    socket.once('data', () => {
      socket.write(OK)
      socket.once('data', () => react(socket))
    })
  }
}

for (const [how, react] of [
  ['closes', (socket: Socket) => void socket.end()],
  ['resets', (socket: Socket) => void socket.resetAndDestroy()],
] as const) {
  test(`an attempt is retried once if the other side ${how} an idle connection just as it's used`, async (context) => {
    const receiver = await startRawReceiver(context, onSecondRequest(react))
    const sender = createLocalSender(context)
    assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
    const answer = await sender.send(makeRequest(receiver.origin))
    assert.equal(answer.status, 200, answer.detail ?? '')
    assert.equal(receiver.accepted, 2)
    assert.ok(answer.timings?.connectMs)
  })
}

test("an attempt isn't retried if its own new connection breaks", async (context) => {
  const receiver = await startRawReceiver(context, (socket) => socket.once('data', () => socket.end()))
  assertFailed(await createLocalSender(context).send(makeRequest(receiver.origin)), 'connection_reset')
  assert.equal(receiver.accepted, 1)
})

test('an attempt is retried once at most', async (context) => {
  let isFirst = true
  const receiver = await startRawReceiver(context, (socket) => {
    if (isFirst) onSecondRequest(() => socket.destroy())(socket)
    else socket.once('data', () => socket.destroy())
    isFirst = false
  })
  const sender = createLocalSender(context)
  assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
  assertFailed(await sender.send(makeRequest(receiver.origin)), 'connection_reset')
  assert.equal(receiver.accepted, 2)
})

test("an attempt isn't retried after a response has begun", async (context) => {
  const receiver = await startRawReceiver(
    context,
    onSecondRequest((socket) => socket.end('HTTP/1.1 200 OK\r\nContent-')),
  )
  const sender = createLocalSender(context)
  assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
  assertFailed(await sender.send(makeRequest(receiver.origin)), 'connection_reset')
  assert.equal(receiver.accepted, 1)
})

test('the retry must finish within the original timeout', async (context) => {
  let isFirst = true
  const receiver = await startRawReceiver(context, (socket) => {
    if (isFirst) onSecondRequest(() => setTimeout(() => socket.destroy(), 80))(socket)
    else socket.resume()
    isFirst = false
  })
  const sender = createLocalSender(context, { timeoutMs: 150 })
  assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
  const answer = await sender.send(makeRequest(receiver.origin))
  assertFailed(answer, 'timeout')
  assert.equal(receiver.accepted, 2)
  assert.ok(answer.durationMs < 5000, `${answer.durationMs} ms`)
})

// --- Closed by us ---

test('an idle connection is closed before the other side would close it', async (context) => {
  const receiver = await startReceiver(context, (response) =>
    response.writeHead(200, { 'Keep-Alive': 'timeout=2' }).end('ok'),
  )
  await createLocalSender(context).send(makeRequest(receiver.origin))
  const answeredAt = performance.now()
  const [socket] = receiver.sockets
  assert.ok(socket)
  await once(socket, 'end')
  const idleMs = performance.now() - answeredAt
  assert.ok(idleMs > 500 && idleMs < 4500, `${idleMs} ms`)
})

test('500 origins leave nothing behind, neither connections nor undici objects', async (context) => {
  const countClients = () => queryObjects(Client, { format: 'count' })
  const before = countClients()
  const receiver = await startReceiver(context, (response) =>
    response.writeHead(200, { 'Keep-Alive': 'timeout=60' }).end('ok'),
  )
  const sender = createLocalSender(context, { lookup: resolveTo('127.0.0.1') })
  const origins = Array.from({ length: 500 }, (_, index) => `http://a${index}.test:${receiver.port}`)
  const answers = await Promise.all(origins.map((origin) => sender.send(makeRequest(origin))))
  assert.ok(answers.every(({ status }) => status === 200))
  assert.equal(receiver.sockets.size, 500)
  assert.ok(countClients() >= 500)
  for (const socket of receiver.sockets) socket.end()
  await Promise.all([...receiver.sockets].map(closed))
  // It takes a moment for the other side to notice that a connection was closed.
  for (let tries = 0; countClients() > before; tries++) {
    assert.ok(tries < 600, `${countClients() - before} are left`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
})

test('if there are 513 idle connections, the one unused for longest is closed', async () => {
  const destroyed: string[] = []
  const pool = createConnectionPool((origin): HttpConnection => {
    return {
      origin,
      isOpen: true,
      exchange: () => assert.fail('used'),
      destroy: async () => void destroyed.push(origin),
    }
  }, 1)
  const deadline = startDeadline(1000, undefined)
  const use = async (origin: string) => pool.giveBack(await pool.take(origin, deadline))
  for (let count = 0; count < 512; count += 1) await use(`https://a${count}.test`)
  await use('https://a0.test')
  assert.deepEqual(destroyed, [])
  await use('https://new.test')
  assert.deepEqual(destroyed, ['https://a1.test'])
  await pool.close()
  deadline.clear()
  assert.equal(destroyed.length, 513)
})

// --- Closing ---

test('close() closes the idle connections and resolves when all are closed', async (context) => {
  const receiver = await startReceiver(context)
  const sender = createLocalSender(context)
  await Promise.all([1, 2, 3].map(() => sender.send(makeRequest(receiver.origin))))
  const sockets = [...receiver.sockets]
  assert.equal(sockets.length, 3)
  await sender.close()
  await Promise.all(sockets.map(closed))
  assert.equal(receiver.sockets.size, 0)
})

test('close() waits for attempts in progress and those that wait for a connection', {
  timeout: 4000,
}, async (context) => {
  let answerAll = () => {}
  const answering = new Promise<void>((resolve) => (answerAll = resolve))
  const receiver = await startReceiver(context, (response) => {
    // Node's server closes idle connections after 5 seconds. If we kept one after close(), we'd notice before that.
    response.setHeader('Keep-Alive', 'timeout=60')
    void answering.then(() => response.end('ok'))
  })
  const sender = createLocalSender(context, { maxConnectionsPerOrigin: 1 })
  const accepted = receiver.nextSocket()
  const attempts = [1, 2].map(() => sender.send(makeRequest(receiver.origin)))
  await accepted
  let isClosed = false
  const closing = sender.close().then(() => {
    isClosed = true
  })
  await new Promise(setImmediate)
  assert.equal(isClosed, false)
  answerAll()
  const answers = await Promise.all(attempts)
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200],
  )
  await closing
})

test('close() can be called again, and before anything has been sent', async () => {
  const sender = createWebhookSender()
  await Promise.all([sender.close(), sender.close()])
  await sender.close()
})

test('prepare() opens nothing, can be called again, and rejects after close()', async (context) => {
  const receiver = await startReceiver(context)
  const sender = createLocalSender(context)
  await sender.prepare?.()
  await sender.prepare?.()
  assert.equal(receiver.accepted, 0)
  assert.equal((await sender.send(makeRequest(receiver.origin))).status, 200)
  await sender.close()
  await assert.rejects(
    async () => sender.prepare?.(),
    /^Error: Cannot send webhooks because the sender is closed$/,
  )
})

test('an attempt after close() immediately ends with sender_failed', async (context) => {
  const receiver = await startReceiver(context)
  const sender = createLocalSender(context)
  await sender.send(makeRequest(receiver.origin))
  await sender.close()
  assertFailed(await sender.send(makeRequest(receiver.origin)), 'sender_failed', /the sender is closed/)
  assert.equal(receiver.requests.length, 1)
})

test('close() interrupts attempts without a response after timeoutMs, including waiting ones', async (context) => {
  const receiver = await startReceiver(context, () => {})
  const sender = createLocalSender(context, { maxConnectionsPerOrigin: 1 })
  const accepted = receiver.nextSocket()
  const attempts = [1, 2].map(() => sender.send(makeRequest(receiver.origin)))
  await accepted
  const startedAt = performance.now()
  await sender.close({ timeoutMs: 200 })
  const tookMs = performance.now() - startedAt
  assert.ok(tookMs > 190, `closed after ${Math.round(tookMs)} ms`)
  for (const answer of await Promise.all(attempts)) assertFailed(answer, 'interrupted')
})

test('a sender is closed at the end of its scope', async (context) => {
  const receiver = await startReceiver(context)
  const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
  await sender.send(makeRequest(receiver.origin))
  await sender[Symbol.asyncDispose]()
  await Promise.all([...receiver.sockets].map(closed))
  assertFailed(await sender.send(makeRequest(receiver.origin)), 'sender_failed', /the sender is closed/)
})
