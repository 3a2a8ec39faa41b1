import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { createInspector } from '../../lib/postgres/schema/inspector.ts'
import { migrate } from '../../lib/postgres.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'

describe("a database whose encoding isn't UTF-8", () => {
  let database: TestDatabase
  let sql: Sql

  before(async () => {
    database = await createEmptyDatabase()
    sql = database.sql({ max: 1 })
  })
  after(() => database.drop())

  for (const encoding of ['LATIN1', 'WIN1252', 'EUC_JP', 'SQL_ASCII'])
    test(`is rejected before the first file, and nothing is left behind: ${encoding}`, async (context) => {
      const name = `encoding_${encoding.toLowerCase()}_${process.pid}`
      const [server] = await sql`select current_setting('server_version_num')::int as version`
      const provider = server?.version >= 150_000 ? 'locale_provider libc' : ''
      await sql.unsafe(
        `create database ${name} template template0 encoding '${encoding}' ${provider} locale 'C'`,
      )
      context.after(() => sql.unsafe(`drop database ${name} with (force)`))
      const url = Object.assign(new URL(database.url), { pathname: `/${name}` }).href
      await assert.rejects(migrate(url), {
        message: new RegExp(
          `^Cannot migrate because the encoding of the database is ${encoding}, .*: create a database with UTF-8: `,
        ),
      })
      const inspector = createInspector(url)
      context.after(() => inspector.close())
      assert.equal((await inspector.server()).encoding, encoding)
      assert.equal((await inspector.schema()).current, 0)
    })
})
