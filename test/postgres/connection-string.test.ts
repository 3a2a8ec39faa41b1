import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import postgres from 'postgres'
import { parseConnectionString } from '../../lib/postgres/connection/connection-string.ts'
import { createInspector } from '../../lib/postgres/schema/inspector.ts'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'

const PASSWORD = 'correct-horse'

describe('an invalid connection string', () => {
  const urls = {
    'a host that is none': `postgres://app:${PASSWORD}@[::1/app`,
    'a second host that is none': `postgres://app:${PASSWORD}@localhost,[::1/app`,
    'a second IPv6 address that is none': `postgres://app:${PASSWORD}@[::1],[1.2.3.4]/app`,
    'an IPv6 address without brackets': `postgres://app:${PASSWORD}@::1/app`,
    'a port that is none': `postgres://app:${PASSWORD}@localhost:port/app`,
    'a password with a slash': `postgres://app:12/${PASSWORD}@localhost/app`,
    'a password with a hash': `postgres://app:#${PASSWORD}@localhost/app`,
    'a password with a question mark': `postgres://app:?${PASSWORD}@localhost/app`,
    'a password with a question mark behind digits': `postgres://app:12?x=${PASSWORD}@localhost/app`,
    'a password with a question mark behind digits, and no database': `postgres://app:12?x=1&y=${PASSWORD}@localhost`,
    'a password with an at sign': `postgres://app:a@${PASSWORD}@localhost/app`,
    'a password with an at sign, and several hosts': `postgres://app:a@${PASSWORD}@one,two/app`,
    'a password with a bare percent sign': `postgres://app:%zz${PASSWORD}@localhost/app`,
    'a space in the host': `postgres://app:${PASSWORD}@local host/app`,
    'another protocol': `mysql://app:${PASSWORD}@localhost/app`,
    'no protocol': `app:${PASSWORD}@localhost/app`,
    'a line break before': `\npostgres://app:${PASSWORD}@localhost/app`,
    'an unknown target_session_attrs': `postgres://app:${PASSWORD}@localhost/app?target_session_attrs=writable`,
    'no connections': `postgres://app:${PASSWORD}@localhost/app?max=0`,
    'fewer connections than none': `postgres://app:${PASSWORD}@localhost/app?max=-1`,
    'half a connection': `postgres://app:${PASSWORD}@localhost/app?max=0.5`,
    'a number of connections that is none': `postgres://app:${PASSWORD}@localhost/app?max=abc`,
    'an empty number of connections': `postgres://app:${PASSWORD}@localhost/app?max=`,
  }
  for (const [name, url] of Object.entries(urls)) {
    test(`${name}: a TypeError without any part of the string`, async () => {
      assert.throws(() => createPostgresStore(url), isSafe)
      assert.throws(() => createInspector(url), isSafe)
      await assert.rejects(migrate(url), isSafe)
    })
  }

  test('an unset environment variable: a TypeError that mentions the variable', async () => {
    const unset = process.env.BUSINESS_API_TEST_UNSET as string
    const message = /current value is undefined, is the environment variable DATABASE_URL set\?$/
    assert.throws(() => createPostgresStore(unset), { name: 'TypeError', message })
    await assert.rejects(migrate(unset), { name: 'TypeError', message })
  })

  function isSafe(error: unknown): boolean {
    assert.ok(error instanceof TypeError, inspect(error))
    assert.match(error.message, /^Cannot use the connection string because .+/)
    // Includes hidden properties and causes.
    const shown = inspect(error, { showHidden: true, depth: 10 })
    assert.ok(!shown.includes(PASSWORD), shown)
    return true
  }
})

test("an at sign in a parameter doesn't belong to a password", () => {
  for (const url of [
    'postgres://localhost:5432/app?application_name=a@b',
    'postgres://localhost:5432?user=app@tenant&password=p@w',
    'postgres://localhost/app?my.tag=a@b',
    'postgres://app:secret@localhost:5432/app?my.tag=a@b',
  ])
    assert.equal(typeof parseConnectionString(url), 'object', url)
})

test('a pool without connections: a RangeError', async () => {
  const pool = postgres(`postgres://app:${PASSWORD}@localhost/app`, { max: 0 })
  assert.throws(() => createPostgresStore(pool), {
    name: 'RangeError',
    message: /^Option 'maxConnections' must be a whole number from 1 /,
  })
  await pool.end()
})

test('a failed connection never shows the password, neither in the message nor in the causes', async () => {
  for (const host of ['127.0.0.1:1', 'nowhere.invalid', '127.0.0.1:1,127.0.0.1:2']) {
    const url = `postgres://app:${PASSWORD}@${host}/app`
    const store = createPostgresStore(url, { statementTimeoutMs: 1000 })
    for (const call of [() => store.apiKeys.list('org_a'), () => migrate(url)]) {
      const error = await call().then(
        () => assert.fail('connected'),
        (reason) => reason,
      )
      assert.ok(!inspect(error, { showHidden: true, depth: 10 }).includes(PASSWORD))
    }
    await store.close()
  }
})
