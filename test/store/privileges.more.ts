import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import { PARTS, type Part, PRIVILEGES } from '../../lib/postgres/schema/privileges.ts'
import type { PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { TODAY } from '../_days.ts'
import { describeStoreContract } from '../contract/store-contract.ts'
import { letTimePass, readEventsOf } from './_postgres.ts'
import { createRoles, type Roles } from './_roles.ts'

// The contract again, each verb under a database role that has the privileges of the verb's part only; and what such a role
// is refused.

let database: TestDatabase
let sql: Sql
let roles: Roles
let secondRoles: Roles

before(async () => {
  database = await createTestDatabase()
  sql = database.sql()
  roles = await createRoles(database)
  secondRoles = await createRoles(database)
})

after(async () => {
  await roles.close()
  await secondRoles.close()
  await database.drop()
})

describeStoreContract({
  name: 'PostgreSQL under least privileges',
  runner: { describe, test },
  store: () => roles.shared,
  secondStore: () => secondRoles.shared,
  events: (organizationId) => readEventsOf(sql, organizationId),
  letTimePass: (organizationId, ms) => letTimePass(sql, organizationId, ms),
})

const REFUSED = { code: '42501' }

describe('Least privileges', () => {
  const refused: Readonly<Record<Part, readonly string[]>> = {
    api: [
      'select sealed_secret from business_api.webhook_endpoints',
      'select previous_sealed_secret from business_api.webhook_endpoints',
      'select sealed_headers from business_api.webhook_endpoints',
      'select url from business_api.webhook_endpoints',
      'select body from business_api.events',
      'delete from business_api.events',
      'delete from business_api.businesses',
      'update business_api.businesses set name = name',
      'update business_api.invoices set amount_paid = 0',
      "update business_api.api_keys set scopes = '{}'",
      'insert into business_api.api_keys (organization_id) values (1)',
      'select 1 from business_api.audit_entries',
      "select business_api.read_deliveries('{}', '{}')",
      'delete from business_api.rate_buckets',
    ],
    platform: [
      'select digest from business_api.api_keys',
      'select sealed_secret from business_api.webhook_endpoints',
      'delete from business_api.invoices',
      "update business_api.invoices set total = 0, number = ''",
      'delete from business_api.payments',
      'select 1 from business_api.audit_entries',
    ],
    settings: [
      // A backfill reads the representations of clients, leads and proposals. The logs read the numbers of invoices and proposals.
      'select latest_changes from business_api.businesses',
      'select signed_by from business_api.proposals',
      'select total from business_api.invoices',
      'select representation from business_api.invoices',
      'update business_api.leads set stage = stage',
      'delete from business_api.businesses',
      'select 1 from business_api.idempotency_keys',
      'delete from business_api.audit_entries',
      'delete from business_api.api_keys',
      "update business_api.api_keys set digest = ''",
      'delete from business_api.events',
    ],
    worker: [
      'select digest from business_api.api_keys',
      'update business_api.api_keys set revoked_at = null',
      'update business_api.webhook_endpoints set url = null',
      'update business_api.webhook_endpoints set sealed_secret = null',
      'select reply from business_api.idempotency_keys',
      "update business_api.events set body = ''",
      "update business_api.events set organization_id = ''",
      "update business_api.idempotency_keys set organization_id = ''",
      'select 1 from business_api.businesses',
      'select 1 from business_api.audit_entries',
      'update business_api.invoices set amount_paid = 0',
    ],
    publisher: [
      'select body from business_api.events',
      'select sealed_secret from business_api.webhook_endpoints',
      'delete from business_api.events',
      'select 1 from business_api.api_keys',
      "select business_api.read_deliveries('{}', '{}')",
    ],
    administrator: [
      'delete from business_api.businesses',
      'update business_api.businesses set name = name',
      'delete from business_api.audit_entries',
      'create table business_api.more ()',
      'insert into business_api.migrations values (9999, null, null)',
    ],
    eraser: [
      'insert into business_api.businesses (organization_id) values (1)',
      'update business_api.businesses set client_status = client_status',
      "update business_api.api_keys set scopes = '{}'",
      'update business_api.webhook_endpoints set url = null',
      "update business_api.events set type = ''",
      "update business_api.events set organization_id = ''",
      "update business_api.idempotency_keys set fingerprint = ''",
    ],
  }
  for (const part of PARTS) {
    for (const statement of refused[part]) {
      test(`reject ${part}: ${statement}`, async () => {
        await assert.rejects(roles.pool(part).unsafe(statement), REFUSED)
      })
    }
  }

  test('let a publisher publish, also a large event', async () => {
    const pool = roles.pool('publisher')
    const data = { campaignId: 'c', name: 'x'.repeat(70_000), status: 'draft' }
    const [row] = await pool`
      select business_api.publish_event('org_publisher', 'marketing.campaign_created', ${pool.json(data)}) as id`
    const events = await readEventsOf(sql, 'org_publisher')
    assert.deepEqual(
      events.map(({ id }) => id),
      [row?.id],
    )
  })

  test('let a loop check the installation, and an administrator adopt and cancel', async () => {
    const entry = { id: 'aud_1', actor: 'olga', action: 'delivery.cancelled' } as const
    const [worker, administrator] = [roles.store('worker'), roles.store('administrator')]
    assert.deepEqual(await worker.installation.check('production'), { name: 'production', isMoved: false })
    assert.equal((await administrator.installation.adopt('staging')).name, 'staging')
    await sql`
      insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at, attempts)
      values ('org_pending', ${TODAY} || 'x', 'evt_x', 'client.created', 'we_x', now(), 0)`
    const cancelled = async (store: PostgresStore): Promise<number> => {
      let count = 0
      for await (const part of store.installation.cancelPending(entry)) count += part.cancelled
      return count
    }
    // The part of settings may cancel each delivery anyway.
    for (const part of ['api', 'platform', 'worker', 'publisher', 'eraser'] as const)
      await assert.rejects(cancelled(roles.store(part)), { code: 'missing_privilege' }, part)
    assert.ok((await cancelled(administrator)) >= 1)
    const [row] =
      await sql`select state from business_api.finished_deliveries where organization_id = 'org_pending'`
    assert.equal(row?.state, 'cancelled')
    for (const part of PARTS.filter((part) => part !== 'administrator' && part !== 'worker'))
      await assert.rejects(roles.store(part).installation.check(null), { code: 'missing_privilege' }, part)
  })

  test('reject functions to every other role', async () => {
    const [row] = await sql`
      select count(*)::int as count from pg_proc
      where pronamespace = 'business_api'::regnamespace and has_function_privilege('public', oid, 'execute')`
    assert.equal(row?.count, 0)
  })
})

describe('The lists of privileges', () => {
  const mentioned = <Name extends 'tables' | 'functions'>(kind: Name): string[] => {
    const names = PARTS.flatMap((part) => {
      const listed = PRIVILEGES[part][kind]
      return Array.isArray(listed) ? [...listed] : Object.keys(listed ?? {})
    })
    return [...new Set(names)].sort()
  }

  test('name every table', async () => {
    const rows = await sql`
      select relname::text as name from pg_class
      where relnamespace = 'business_api'::regnamespace and relkind in ('r', 'p', 'v', 'm') and not relispartition`
    assert.deepEqual(mentioned('tables'), rows.map(({ name }) => name).sort())
  })

  test('name every function that runs with the privileges of the owner', async () => {
    const rows = await sql`
      select proname::text as name from pg_proc
      where pronamespace = 'business_api'::regnamespace and prosecdef`
    assert.deepEqual(mentioned('functions'), rows.map(({ name }) => name).sort())
  })
})
