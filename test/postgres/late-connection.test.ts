import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createConnections } from '../../lib/postgres/connection/connections.ts'
import { createServers, type Servers } from '../../lib/postgres/connection/servers.ts'
import { readSource } from '../../lib/postgres/connection/source.ts'
import { createTestDatabase } from '../_database.ts'
import { until } from '../faults/_fixture.ts'

test('a connection that opens during close() is closed', async (t) => {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const sql = database.sql({ max: 1 })
  const countSessions = async (): Promise<number> =>
    (await sql`select from pg_stat_activity where application_name = 'late_connection'`).length
  const source = readSource(`${database.url}?application_name=late_connection`)
  const servers = createServers(source, { prepare: true, sessions: true, statementTimeoutMs: 5000 })
  const closings: Promise<void>[] = []
  const closingServers: Servers = {
    ...servers,
    async open(listener, signal) {
      const connection = await servers.open(listener, signal)
      assert.equal(await countSessions(), 1)
      closings.push(connections.close())
      return connection
    },
  }
  const connections = createConnections(closingServers, 1)
  await assert.rejects(connections.take(5000), { code: 'store_unavailable' })
  await Promise.all(closings)
  await until('its session has ended', async () => (await countSessions()) === 0, 30_000)
})
