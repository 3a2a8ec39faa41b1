import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDatabase } from '../../lib/postgres/connection/database.ts'
import { createTestDatabase } from '../_database.ts'
import { until } from '../faults/_fixture.ts'

test('a statement with a response timeout fails in time and only ends its own session', async (t) => {
  const testDatabase = await createTestDatabase()
  t.after(() => testDatabase.drop())
  const sql = testDatabase.sql({ max: 1 })
  const url = new URL(testDatabase.url)
  url.searchParams.set('application_name', 'answer_time')
  const database = createDatabase(url.href, { maxConnections: 6 })
  t.after(() => database.close())
  const sessions = async (): Promise<string[]> => {
    const rows = await sql<
      { pid: number }[]
    >`select pid from pg_stat_activity where application_name = 'answer_time'`
    return rows.map(({ pid }) => String(pid)).sort()
  }
  const sleepFor = (seconds: number, answerMs?: number) =>
    database.rowFor(
      null,
      (sql, answerTag) =>
        sql`select pg_backend_pid()::text, pg_sleep(${seconds}::float8)::text as slept, ${answerTag}`,
      { answerMs },
    )
  const isSettled = async (): Promise<boolean> => {
    await Promise.all([1, 2, 3].map(() => sleepFor(0.1)))
    return (await sessions()).length >= 3
  }
  await until('three sessions are open', isSettled, 30_000)
  const before = await sessions()

  const begunAt = performance.now()
  await assert.rejects(sleepFor(2, 200), { code: 'store_unavailable', message: /within 200 ms/ })
  const ms = performance.now() - begunAt
  assert.ok(ms >= 190, `${ms} ms`)

  const [pid] = await sleepFor(0, 5000)
  assert.ok(before.includes(pid ?? ''), 'a statement later gets a session that was open before')
  // If the client is gone, the server ends the session after its statement.
  await until('the session has ended', async () => (await sessions()).length === before.length - 1, 30_000)
  const left = await sessions()
  assert.deepEqual(
    left.filter((pid) => !before.includes(pid)),
    [],
  )
})
