import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import postgres, { type Sql } from 'postgres'
import { type PostgresServer, startPostgres } from '../../examples/demo/postgres.ts'
import { migrateFrom } from '../../lib/postgres/schema/migrate.ts'
import { migrate } from '../../lib/postgres.ts'
import { TEST_SERVER_FLAGS } from '../_database.ts'
import { type Pooler, startPooler } from './_pooler.ts'

// Migrations through a pooler in transaction mode, where nothing in a session outlasts a transaction.

const INDEX = {
  '0001-things.sql': 'create table business_api.things (id integer not null)',
  '0002-index.sql': 'create index things_id_idx on business_api.things (id)',
}

let directory: string
let server: PostgresServer
let direct: Sql
let pooler: Pooler

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'business-api-pooler-'))
  const hba = join(directory, 'hba.conf')
  await writeFile(hba, 'host all all 127.0.0.1/32 trust\n', { mode: 0o644 })
  await chmod(directory, 0o755)
  server = await startPostgres({ postgresFlags: [...TEST_SERVER_FLAGS, '-c', `hba_file=${hba}`] })
  direct = postgres(server.url, { onnotice: () => {} })
  pooler = await startPooler(server.url, 4)
})

after(async () => {
  await pooler.close()
  await direct.end()
  await server.stop()
  await rm(directory, { recursive: true, force: true })
})

beforeEach(() => direct`drop schema if exists business_api cascade`)

/** Runs work with pools that connect through the pooler. */
async function withPools<Result>(count: number, work: (pools: Sql[]) => Promise<Result>): Promise<Result> {
  const pools = Array.from({ length: count }, () =>
    postgres(pooler.url, { max: 1, prepare: false, fetch_types: false, onnotice: () => {} }),
  )
  try {
    return await work(pools)
  } finally {
    await Promise.all(pools.map((pool) => pool.end({ timeout: 1 })))
  }
}

describe('migrate() through a pooler in transaction mode', () => {
  test('migrates, and finds nothing to do the next time', async () => {
    const { applied, current } = await migrate(pooler.url)
    assert.equal(applied.length, current)
    assert.deepEqual(await migrate(pooler.url), { applied: [], current })
  })

  test('called by four processes at once applies each migration once and builds its indexes', async () => {
    const reports = await withPools(4, (pools) => Promise.all(pools.map((pool) => migrateFrom(pool, INDEX))))
    assert.deepEqual(reports.flatMap(({ applied }) => applied).sort(), Object.keys(INDEX))
    const [row] = await direct`
      select indisvalid as "isValid" from pg_index where indexrelid = 'business_api.things_id_idx'::regclass`
    assert.equal(row?.isValid, true)
  })
})
