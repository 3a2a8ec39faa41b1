import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createPostgresStore, migrate } from '../../lib/postgres.ts'
import { createEmptyDatabase, type TestDatabase } from '../_database.ts'
import { live } from './_life.ts'

// A whole life in databases whose settings are otherwise: as `alter database` or `alter role` may have left them, in sessions of the
// store's own and behind a pooler in transaction mode, where the store can set nothing.

const SETTINGS: readonly (readonly [name: string, value: string])[] = [
  ['array_nulls', 'off'],
  ['quote_all_identifiers', 'on'],
  ['transform_null_equals', 'on'],
  ['row_security', 'off'],
  ['search_path', 'evil, pg_catalog'],
  ['default_transaction_isolation', 'serializable'],
  ['default_transaction_isolation', 'repeatable read'],
  ['default_transaction_deferrable', 'on'],
  ['bytea_output', 'escape'],
  ['intervalstyle', 'sql_standard'],
  ['datestyle', 'German, DMY'],
  ['standard_conforming_strings', 'off'],
  ['backslash_quote', 'off'],
  ['escape_string_warning', 'off'],
  ['lc_numeric', 'C'],
  ['timezone', 'America/St_Johns'],
  ['extra_float_digits', '-15'],
  ['xmloption', 'document'],
  ['plan_cache_mode', 'force_generic_plan'],
  ['jit', 'on'],
  ['jit_above_cost', '0'],
  ['enable_seqscan', 'off'],
  ['enable_indexscan', 'off'],
  ['statement_timeout', '20s'],
  ['idle_in_transaction_session_timeout', '100ms'],
  ['client_min_messages', 'debug1'],
  ['check_function_bodies', 'off'],
  ['default_toast_compression', 'pglz'],
  ['session_replication_role', 'replica'],
  ['synchronous_commit', 'off'],
]

for (const sessions of [true, false])
  describe(sessions ? 'in sessions of its own' : 'behind a pooler in transaction mode', () => {
    for (const [name, value] of SETTINGS)
      test(`a life with ${name} = ${value}`, async (context) => {
        const database = await createEmptyDatabase()
        context.after(() => database.drop())
        await alter(database, name, value)
        await live(database.url, { sessions })
      })
  })

test('default_transaction_read_only = on: migrate works, and a write says what is wrong', async (context) => {
  const database = await createEmptyDatabase()
  context.after(() => database.drop())
  await alter(database, 'default_transaction_read_only', 'on')
  await migrate(database.url, { logger: false })
  await using store = createPostgresStore(database.url)
  await assert.rejects(store.apiKeys.markUsed('org_a', 'key_a'), {
    code: 'store_unavailable',
    message: /read-only: is it a standby, or is default_transaction_read_only set\?$/,
  })
})

async function alter({ sql }: TestDatabase, name: string, value: string): Promise<void> {
  await sql({ max: 1, onnotice: () => {} }).unsafe(`
    create schema evil;
    do $$ begin execute format('alter database %I set ${name} = %L', current_database(), '${value}'); end $$`)
}
