import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import pg from 'pg'
import { pgTransaction } from '../../lib/postgres.ts'
import { openPostgres } from './_platform.ts'
import { type HostDriver, testTransactions } from './_transactions.ts'

// platform.using(tx) with pg.

const opened = openPostgres()
let open: pg.Pool | undefined
after(() => open?.end())

function pool(): pg.Pool {
  if (open !== undefined) return open
  open = new pg.Pool({ connectionString: opened.database().url })
  open.on('error', () => {})
  open.on('connect', (client) => client.on('error', () => {}))
  return open
}

const driver: HostDriver = {
  async begin(work) {
    const client = await pool().connect()
    let failure: Error | undefined
    try {
      await client.query('begin')
      const result = await work(pgTransaction(client), (text) => client.query(text))
      await client.query('commit')
      return result
    } catch (error) {
      await client.query('rollback').catch((lost) => {
        failure = lost
      })
      throw error
    } finally {
      client.release(failure)
    }
  },
}

testTransactions('pg', opened, () => driver)

test('pgTransaction() reads rows whatever parsers the host has set', async () => {
  const { platform, organizationId } = await opened.newHost()
  const textOid = 25
  const parse = pg.types.getTypeParser(textOid)
  pg.types.setTypeParser(textOid, (value) => `<${value}>`)
  try {
    const client = await driver.begin((tx) =>
      platform.using(tx).clients.create(organizationId, { name: 'Atlas' }),
    )
    assert.equal(client.business.name, 'Atlas')
  } finally {
    pg.types.setTypeParser(textOid, parse)
  }
})

test('pgTransaction() rejects a pool, even at compile time, and a client without a transaction', async () => {
  // @ts-expect-error a pool is no client
  assert.throws(() => pgTransaction(pool()), TypeError)
  assert.throws(() => Reflect.apply(pgTransaction, undefined, [undefined]), TypeError)
  const client = await pool().connect()
  try {
    await client.query('select 1')
    assert.throws(() => pgTransaction(client), { name: 'TypeError', message: /send begin first/ })
  } finally {
    client.release()
  }
})

test("using() rejects a client or pool of pg that wasn't wrapped by a helper", async () => {
  const { platform } = await opened.newHost()
  const client = await pool().connect()
  try {
    for (const odd of [client, pool(), { query: 'text' }]) {
      assert.throws(() => Reflect.apply(platform.using, undefined, [odd]), {
        name: 'TypeError',
        message: /pgTransaction\(…\)/,
      })
    }
  } finally {
    client.release()
  }
})

test('using() names the problem if a driver returns no rows or columns other than text', async () => {
  const { platform, organizationId } = await opened.newHost()
  for (const [rows, reason] of [
    [{ rows: [] }, /must return the rows as an array/],
    [[{ hasGoneOn: 1 }], /a column of type text was returned as number/],
  ] as const) {
    const tx = { query: async () => rows as never }
    await assert.rejects(platform.using(tx).clients.create(organizationId, { name: 'Atlas' }), {
      name: 'TypeError',
      message: reason,
    })
  }
})
