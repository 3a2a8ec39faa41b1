import assert from 'node:assert/strict'
import { connect, createServer, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import postgres from 'postgres'
import { type PostgresServer, startPostgres } from '../../examples/demo/postgres.ts'
import { BusinessApiError, STORE_UNAVAILABLE } from '../../lib/base/errors.ts'
import { readTarget } from '../../lib/postgres/connection/target.ts'
import { migrate } from '../../lib/postgres/schema/migrate.ts'
import { createPostgresStore } from '../../lib/postgres.ts'

// We start a separate server because the one in DATABASE_URL may accept any password.

const PASSWORD = 'not-the-password'

let server: PostgresServer
let closedPort: number

before(async () => {
  server = await startPostgres()
  closedPort = await findClosedPort()
})
after(() => server.stop())

/** Returns a port that was open a moment ago and now rejects connections. */
async function findClosedPort(): Promise<number> {
  const listener = createServer()
  const port = await new Promise<number>((resolve) => {
    listener.listen(0, '127.0.0.1', () => resolve((listener.address() as { port: number }).port))
  })
  await new Promise((resolve) => listener.close(resolve))
  return port
}

function change(changes: Partial<Record<'port' | 'password' | 'pathname' | 'search', string>>): string {
  return Object.assign(new URL(server.url), changes).href
}

interface Case {
  url(): string
  message(): string
}

const cases: Readonly<Record<string, Case>> = {
  'a server that does not run': {
    url: () => change({ port: String(closedPort) }),
    message: () =>
      `Cannot migrate because PostgreSQL (127.0.0.1:${closedPort}, user postgres, database postgres) cannot be used: ` +
      'the connection was refused; is it running?',
  },
  'a password that the server refuses': {
    url: () => change({ password: PASSWORD }),
    message: () =>
      `Cannot migrate because PostgreSQL (127.0.0.1:${server.port}, user postgres, database postgres) cannot be used: ` +
      'the password was rejected; check the user and the password in the connection string',
  },
  'a database that does not exist': {
    url: () => change({ pathname: '/nothing' }),
    message: () =>
      `Cannot migrate because PostgreSQL (127.0.0.1:${server.port}, user postgres, database nothing) cannot be used: ` +
      'no database has that name; check the name in the connection string, or create the database',
  },
  'a server without TLS': {
    url: () => change({ search: '?sslmode=require' }),
    message: () =>
      `Cannot migrate because PostgreSQL (127.0.0.1:${server.port}, user postgres, database postgres) cannot be used: ` +
      'the server does not speak TLS; leave sslmode out of the connection string',
  },
}

describe('migrate() reports the server, the reason and what to do for', () => {
  for (const [name, { url, message }] of Object.entries(cases)) {
    test(`${name}, given a connection string`, () => assertUnavailable(migrate(url()), message()))

    test(`${name}, given a pool`, async (t) => {
      const pool = postgres(url(), { onnotice: () => {} })
      t.after(() => pool.end({ timeout: 1 }))
      await assertUnavailable(migrate(pool), message())
    })
  }

  test("several servers that can't be reached", () =>
    assertUnavailable(
      migrate(`postgres://app:${PASSWORD}@127.0.0.1:${closedPort},localhost:${closedPort}/app`),
      `Cannot migrate because PostgreSQL (127.0.0.1:${closedPort},localhost:${closedPort}, user app, database app) ` +
        'cannot be used: the connection was refused; is it running?',
    ))
})

describe('migrate() fails at once if the server closes each connection before it says anything', () => {
  // A port that Docker forwards to a container without a server does this.
  let url: string
  const closing = createServer((socket) => void socket.on('error', () => {}).end())

  before(async () => {
    const port = await new Promise<number>((resolve) => {
      closing.listen(0, '127.0.0.1', () => resolve((closing.address() as { port: number }).port))
    })
    url = change({ port: String(port) })
  })
  after(() => void closing.close())

  const fault = { code: STORE_UNAVAILABLE, message: /cannot be used: the connection was closed$/ }

  test('given a connection string', { timeout: 4000 }, () => assert.rejects(migrate(url), fault))

  test('given a pool', { timeout: 4000 }, async (t) => {
    const pool = postgres(url)
    t.after(() => pool.end({ timeout: 1 }))
    await assert.rejects(migrate(pool), fault)
  })
})

describe('an IPv6 address in a connection string', () => {
  // The server only listens on 127.0.0.1.
  let port: number
  const sockets = new Set<Socket>()
  const forwarder = createServer((socket) => {
    const upstream = connect(server.port, '127.0.0.1')
    for (const end of [socket, upstream]) sockets.add(end.on('error', () => {}))
    socket.pipe(upstream).pipe(socket)
  })

  before(async () => {
    port = await new Promise((resolve) => {
      forwarder.listen(0, '::1', () => resolve((forwarder.address() as { port: number }).port))
    })
  })
  after(() => {
    for (const socket of sockets) socket.destroy()
    forwarder.close()
  })

  const withHosts = (hosts: string): string => server.url.replace(/(?<=@)[^/]+/, hosts)

  test('is used by migrate() and by the store', async () => {
    const url = withHosts(`[::1]:${port}`)
    assert.ok((await migrate(url)).current > 0)
    const store = createPostgresStore(url, { maxConnections: 1 })
    assert.deepEqual(await store.apiKeys.list('org_a'), [])
    await store.close()
  })

  test('can be one of several hosts', async () => {
    for (const hosts of [
      `127.0.0.1:${closedPort},[::1]:${port}`,
      `[::1]:${closedPort},[0:0:0:0:0:0:0:1]:${port}`,
      `[::1]:${closedPort},127.0.0.1:${server.port}`,
    ]) {
      assert.ok((await migrate(withHosts(hosts))).current > 0, hosts)
    }
  })

  test('is reported completely on failure', () =>
    assertUnavailable(
      migrate(`postgres://app:${PASSWORD}@[::1]:${closedPort},[0:0::1]:${closedPort}/app`),
      `Cannot migrate because PostgreSQL ([::1]:${closedPort},[0:0::1]:${closedPort}, user app, database app) ` +
        'cannot be used: the connection was refused; is it running?',
    ))

  test('uses port 5432 by default', () => {
    assert.equal(readTarget('postgres://app@[2001:db8::7]/app').server, '[2001:db8::7]:5432')
  })
})

/** The cause is the driver's error, for programs that read its code. */
async function assertUnavailable(migration: Promise<unknown>, message: string): Promise<void> {
  await assert.rejects(migration, (error) => {
    assert.ok(error instanceof BusinessApiError, `a typed error, and not ${error}`)
    assert.equal(error.code, STORE_UNAVAILABLE)
    assert.equal(error.message, message)
    assert.ok(error.cause instanceof Error && 'code' in error.cause)
    return true
  })
}
