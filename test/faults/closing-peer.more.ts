import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createPostgresStore } from '../../lib/postgres.ts'

// A server or a balancer that accepts connections and closes every connection.

const HOSTILE = {
  'closes at once': (socket: Socket) => void socket.end(),
  'resets at once': (socket: Socket) => void socket.resetAndDestroy(),
  'closes after the first bytes': (socket: Socket) => void socket.once('data', () => socket.end()),
}

for (const [name, receive] of Object.entries(HOSTILE)) {
  test(`a peer that ${name} is dialled a few times for a request, and with backoff for many`, async (t) => {
    const peer = await startPeer(t, receive)
    const store = createPostgresStore(peer.url)
    t.after(() => store.close())

    await assert.rejects(store.apiKeys.list('org_a'), { code: 'store_unavailable' })
    assert.ok(peer.dials >= 1 && peer.dials <= 3, `${peer.dials} dials for one request`)

    const startedAt = performance.now()
    let requests = 0
    await Promise.all(
      Array.from({ length: 50 }, async () => {
        while (performance.now() - startedAt < 2000) {
          requests++
          await assert.rejects(store.apiKeys.list('org_a'), { code: 'store_unavailable' })
        }
      }),
    )
    t.diagnostic(
      `${peer.dials} dials for ${requests} requests in ${Math.round(performance.now() - startedAt)} ms`,
    )
    // In the end at most four connections a second.
    assert.ok(peer.dials < 40, `${peer.dials} dials`)
  })
}

for (const [refused, message] of [
  [
    'startup parameter: statement_timeout',
    /the session parameter statement_timeout: set option 'sessions' to false, and leave such parameters out/,
  ],
  ['startup parameter: work_mem', /the session parameter work_mem: leave it out of the connection string/],
  ['startup parameter in options: geqo', /the session parameter geqo: leave it out/],
  ['startup parameters', /session parameters: set option 'sessions' to false, and leave such parameters out/],
] as const)
  test(`a pooler that rejects a ${refused}: the message names it, and the remedy`, async (t) => {
    // As PgBouncer answers: an ErrorResponse after the start-up message.
    const fields = ['SFATAL', 'VFATAL', 'C08P01', `Munsupported ${refused}`, '']
    const body = Buffer.from(`${fields.join('\0')}\0`)
    const head = Buffer.alloc(5, 'E')
    head.writeInt32BE(body.length + 4, 1)
    const peer = await startPeer(t, (socket) => {
      socket.once('data', () => socket.end(Buffer.concat([head, body])))
    })
    const store = createPostgresStore(peer.url)
    t.after(() => store.close())
    await assert.rejects(store.apiKeys.list('org_a'), {
      code: 'store_unavailable',
      message,
    })
  })

test('a host that closes at once does not keep the store from the other hosts for long', async (t) => {
  const peers = await Promise.all([
    startPeer(t, HOSTILE['closes at once']),
    startPeer(t, HOSTILE['closes at once']),
  ])
  const ports = peers.map(({ port }) => `127.0.0.1:${port}`).join()
  const store = createPostgresStore(`postgres://app:secret@${ports}/app`)
  t.after(() => store.close())
  await assert.rejects(store.apiKeys.list('org_a'), { code: 'store_unavailable' })
  for (const { dials } of peers) assert.ok(dials >= 1 && dials <= 3, `${dials} dials`)
})

test('a connection string with a listening loop dials such a peer with a pause too', async (t) => {
  const peer = await startPeer(t, HOSTILE['closes at once'])
  const store = createPostgresStore(peer.url)
  const { end: unwatch } = store.deliveries.watch(() => {})
  await sleep(1500)
  unwatch()
  await store.close()
  assert.ok(peer.dials >= 1 && peer.dials <= 3, `${peer.dials} dials`)
})

async function startPeer(
  t: TestContext,
  receive: (socket: Socket) => void,
): Promise<{ readonly url: string; readonly port: number; readonly dials: number }> {
  let dials = 0
  const server = createServer((socket) => {
    dials++
    receive(socket.on('error', () => {}))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  return {
    url: `postgres://app:secret@127.0.0.1:${port}/app`,
    port,
    get dials() {
      return dials
    },
  }
}
