import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import pg from 'pg'
import { drizzleTransaction, kyselyTransaction, pgTransaction } from '../../lib/postgres.ts'
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

test('a call that was not awaited before commit or rollback is rejected, instead of being committed by itself', async () => {
  const { platform, organizationId, everything } = await opened.newHost()
  const before = await everything()
  for (const end of ['commit', 'rollback']) {
    const client = await pool().connect()
    try {
      await client.query('begin')
      const call = platform.using(pgTransaction(client)).clients.create(organizationId, { name: 'Atlas' })
      const message = /is in no transaction: send begin first, and await each call before commit$/
      await Promise.all([assert.rejects(call, { name: 'TypeError', message }, end), client.query(end)])
    } finally {
      client.release()
    }
  }
  assert.deepEqual(await everything(), before)
})

test('a call after the commit is rejected, instead of being committed by itself', async () => {
  const { platform, organizationId, everything } = await opened.newHost()
  const before = await everything()
  const kept = await driver.begin(async (tx) => platform.using(tx))
  await assert.rejects(kept.clients.create(organizationId, { name: 'Atlas' }), {
    name: 'TypeError',
    message: /is in no transaction: send begin first, and await each call before commit$/,
  })
  assert.deepEqual(await everything(), before)
})

test('a call in a read-only transaction says why it cannot continue', async () => {
  const { platform, organizationId } = await opened.newHost()
  const transaction = driver.begin(async (tx, query) => {
    await query('set transaction read only')
    await platform.using(tx).clients.create(organizationId, { name: 'Atlas' })
  })
  await assert.rejects(transaction, {
    code: 'store_unavailable',
    message: /^Cannot continue the transaction because the server is read-only/,
  })
})

test('a call that conflicts with another transaction says so, and not that it was sent again', async () => {
  const { platform, organizationId } = await opened.newHost()
  const { id: businessId } = await platform.businesses.create(organizationId, { name: 'Atlas' })
  const update = (calls: Pick<typeof platform, 'businesses'>, city: string) =>
    calls.businesses.update(organizationId, { businessId, city })
  const transaction = driver.begin(async (tx, query) => {
    await query('set transaction isolation level repeatable read')
    await query('select from business_api.businesses')
    await update(platform, 'Amman')
    await update(platform.using(tx), 'Beirut')
  })
  await assert.rejects(transaction, {
    code: 'store_unavailable',
    message: 'Cannot continue the transaction because other transactions changed the same records',
  })
})

test('drizzleTransaction() and kyselyTransaction() reject a missing second argument', () => {
  const [execute, rollback] = [() => [], () => {}]
  assert.throws(
    () => Reflect.apply(drizzleTransaction, undefined, [{ execute, rollback }]),
    /sql of drizzle-orm$/,
  )
  const kysely = { executeQuery: execute, isTransaction: true }
  assert.throws(() => Reflect.apply(kyselyTransaction, undefined, [kysely]), /CompiledQuery of kysely$/)
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
