import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Sql } from 'postgres'
import { slotOf } from '../../lib/access/slots.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'

let database: TestDatabase
let sql: Sql

before(async () => {
  database = await createEmptyDatabase()
  sql = database.sql()
  await sql`create table organizations (id text collate "C") partition by hash (id)`
})

after(() => database.drop())

/** Counts the strings that PostgreSQL would place differently. */
async function countMisplaced(texts: readonly string[]): Promise<number> {
  const placed = JSON.stringify(texts.map((text) => ({ text, slot: slotOf(text) })))
  const [counted] = await sql`
    select count(*)::int as misplaced from jsonb_to_recordset(${placed}::text::jsonb) as placed (text text, slot int)
    where not satisfies_hash_partition('organizations'::regclass, 1024, placed.slot, placed.text)`
  return counted?.misplaced
}

test("slotOf() is the remainder of PostgreSQL's hash partitioning for strings of any length", async () => {
  const letters = [...'abcXYZ019_-./ é€🏺\u0001\u{10ffff}']
  const random = (length: number): string =>
    Array.from({ length }, () => letters[randomInt(letters.length)]).join('')
  const texts = Array.from({ length: 70 }, (_, length) => Array.from({ length: 100 }, () => random(length)))
  assert.equal(await countMisplaced(['', ...texts.flat()]), 0)
})

test("slotOf() is the remainder of PostgreSQL's hash partitioning for typical ids of hosts", async () => {
  const ids = Array.from({ length: 5000 }, (_, index) => [
    `org_${index}`,
    String(index),
    `tenant-${randomInt(2 ** 40).toString(36)}`,
    'é'.repeat(index % 700),
  ])
  assert.equal(await countMisplaced(ids.flat()), 0)
})

test("the lookup query in SHARDS.md calculates the same slot, as an array's index", async () => {
  const page = await readFile(join(import.meta.dirname, '../../lib/postgres/SHARDS.md'), 'utf8')
  const [, index = ''] = /map[.]slots\[([^\]]+)\]/.exec(page) ?? []
  for (let number = 0; number < 200; number++) {
    const id = `org_${number}`
    const [row] = await sql.unsafe(`select ${index} as index`, [id])
    assert.equal(row?.index, slotOf(id) + 1)
  }
})

test('slotOf() distributes organizations evenly', () => {
  const counts = new Array<number>(4).fill(0)
  for (let index = 0; index < 40_000; index++) {
    const shard = slotOf(`org_${index}`) % counts.length
    counts[shard] = (counts[shard] ?? 0) + 1
  }
  for (const count of counts) assert.ok(Math.abs(count - 10_000) < 400, String(counts))
})
