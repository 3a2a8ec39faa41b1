import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { textOfHash } from '../../lib/postgres/distributed/text-of-hash.ts'
import { createTestDatabase } from '../_database.ts'

test('a text that is computed from a hash has that hash in PostgreSQL', async (t) => {
  const database = await createTestDatabase()
  t.after(() => database.drop())
  const sql = database.sql({ max: 1 })
  const random = Array.from({ length: 20 }, () => randomInt(-(2 ** 31), 2 ** 31))
  for (const hash of [0, 1, -1, -(2 ** 31), 2 ** 31 - 1, ...random]) {
    const text = textOfHash(hash)
    assert.match(text, /^[!-~]{12}$/)
    const [row] = await sql`select pg_catalog.hashtext(${text}::text collate "C") as hash`
    assert.equal(row?.hash, hash, text)
  }
})
