import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Sql, TransactionSql } from 'postgres'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import type { PartResult } from '../../lib/access/organizations.ts'
import { createPlatform } from '../../lib/platform.ts'
import { DELETED_TABLES } from '../../lib/postgres/organizations.ts'
import type { PostgresStore } from '../../lib/postgres.ts'
import { CreateBusinessInputSchema } from '../../lib/resources/businesses.ts'
import { TYPES_WITHOUT_BUSINESS } from '../../lib/resources/event-catalogue.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { businessOf } from '../_business.ts'
import { parentOf, TODAY, turnOffAutovacuum } from '../_days.ts'
import { finishDeliveries } from '../_deliveries.ts'
import { useDatabase } from '../_use-database.ts'
import { plainRecords } from '../contract/imports.ts'

// Deleting organizations and personal data, as seen in the tables.

let sql: Sql
let store: PostgresStore
useDatabase((used) => {
  ;({ sql, store } = used)
}, 1)

const settings = () =>
  createDeveloperSettings(store, { allowPlaintextSecrets: true, allowPrivateNetworks: true, allowHttp: true })

/** Returns the number of an organization's rows in each table that has organizations. */
async function rowsOf(organizationId: string): Promise<Readonly<Record<string, number>>> {
  const tables = await sql<{ name: string }[]>`
    select relation.relname as name from pg_attribute attribute
    join pg_class relation on relation.oid = attribute.attrelid
    where relation.relnamespace = 'business_api'::regnamespace and relation.relkind in ('r', 'p')
      and not relation.relispartition
      and attribute.attname = 'organization_id'
    order by 1`
  const counts: Record<string, number> = {}
  for (const { name } of tables) {
    const [row] = await sql`
      select count(*)::int as count from ${sql(`business_api.${name}`)} where organization_id = ${organizationId}`
    counts[name] = row?.count
  }
  return counts
}

async function fill(organizationId: string): Promise<void> {
  const platform = createPlatform(store)
  const { apiKeys, endpoints, rateLimits } = settings()
  const key = await apiKeys.create(organizationId, { name: 'Key', scopes: ['clients:read'] })
  await rateLimits.set(organizationId, { perSecond: 1, burst: 1 })
  await endpoints.register(organizationId, { url: 'http://127.0.0.1:9999/' })
  assert.ok(key)
  const idempotencyKey = 'key'
  const { business } = await platform.clients.create(organizationId, { name: 'Atlas', idempotencyKey })
  await platform.leads.create(organizationId, { businessId: business.id })
  await platform.proposals.create(organizationId, { title: 'Site', total: 1, currency: 'EUR' })
  const invoice = { currency: 'EUR', total: '1', dueDate: '2099-01-01T00:00:00Z' }
  const { id: invoiceId } = await platform.invoices.create(organizationId, invoice)
  await platform.invoices.issue(organizationId, { invoiceId })
  await platform.invoices.recordPayment(organizationId, { invoiceId, amount: '1' })
  await store.imports.write(organizationId, plainRecords())
  await platform.publish(
    organizationId,
    'project.completed',
    { projectId: 'p', name: 'Site' },
    { id: 'evt_of-the-host' },
  )
  await sql`insert into business_api.rate_buckets values (${organizationId}, 'b', 1)`
  await sql`insert into business_api.endpoint_rates (organization_id, endpoint_id) values (${organizationId}, 'we_1')`
  await sql`select business_api.count_activity(array[row(
    ${organizationId}::text, 'we_1', 'delivered', now(), 1, 200, null
  )::business_api.ended_attempt])`
  await store.requests.write([
    {
      ...{
        id: 'req_1',
        at: new Date().toISOString(),
        keyDigest: digestApiKey(key.key),
        organizationId,
        method: 'GET',
      },
      ...{
        route: '/api/v1/leads',
        path: '/api/v1/leads',
        status: 200,
        durationMs: 1,
        error: null,
        isReplay: false,
      },
    },
  ])
  await finishDeliveries(sql, 'delivered', sql`organization_id = ${organizationId} and type = 'lead.created'`)
  await sql`
    insert into business_api.delivery_attempts (organization_id, delivery_id, number, started_at, duration_ms, body_excerpt)
    select organization_id, id, 1, now(), 1, 'x' from business_api.open_deliveries where organization_id = ${organizationId}`
}

test('organizations.delete() leaves none of the organization’s rows in any table, and all rows of others', async () => {
  await fill('org_gone')
  await fill('org_stays')
  const before = await rowsOf('org_gone')
  const empty = Object.entries(before).filter(([, count]) => count === 0)
  // Rows about the whole database have an empty organization.
  assert.deepEqual(
    empty.map(([name]) => name),
    ['event_days', 'event_limits', 'event_types', 'installation', 'purge_progress', 'shard_places'],
  )
  const stays = await rowsOf('org_stays')

  const progress: number[] = []
  const counts = await settings().organizations.delete('org_gone', {
    onProgress: (deleted) => progress.push(deleted),
  })
  const filled = Object.entries(before).filter(([, count]) => count > 0)
  assert.deepEqual(counts, Object.fromEntries(filled))
  assert.equal(
    progress.at(-1),
    filled.reduce((sum, [, count]) => sum + count, 0),
  )
  assert.deepEqual(
    Object.values(await rowsOf('org_gone')).filter((count) => count > 0),
    [],
  )
  assert.deepEqual(await rowsOf('org_stays'), stays)
  assert.deepEqual(await settings().organizations.delete('org_gone'), {})
})

/** Returns the columns of the schema whose text contains a value. */
async function placesOf(value: string): Promise<readonly string[]> {
  const columns = await sql<{ table: string; column: string }[]>`
    select relation.relname as table, attribute.attname as column from pg_attribute attribute
    join pg_class relation on relation.oid = attribute.attrelid
    where relation.relnamespace = 'business_api'::regnamespace and relation.relkind in ('r', 'p')
      and not relation.relispartition
      and attribute.attnum > 0 and not attribute.attisdropped
    order by 1, 2`
  const places: string[] = []
  for (const { table, column } of columns) {
    const rows = await sql`
      select 1 from ${sql(`business_api.${table}`)} where strpos(${sql(column)}::text, ${value}) > 0 limit 1`
    if (rows.length > 0) places.push(`${table}.${column}`)
  }
  return places
}

test('organizations.forgetBusiness() leaves no personal data in any column of any table', async () => {
  const org = 'org_forgets'
  const platform = createPlatform(store)
  await settings().endpoints.register(org, { url: 'http://127.0.0.1:9999/' })
  // All fields of the input. If you add a field that isn't personal, list it here.
  const person = {
    ...Object.fromEntries(
      Object.keys(CreateBusinessInputSchema.entries).map((field) => [field, `${field}-"Quist"`]),
    ),
    name: 'Name "Quist"',
    email: 'email@quist.example',
  }
  const given = ['Quist', 'quist.example']
  // All calls that store a business in a reply: creating a client or business, changing it, and winning a lead.
  const { business, id: clientId } = await platform.clients.create(org, {
    ...person,
    idempotencyKey: 'client',
  })
  const lead = await platform.businesses.create(org, { ...person, idempotencyKey: 'business' })
  await platform.businesses.update(org, { businessId: lead.id, city: 'Quist', idempotencyKey: 'update' })
  const { id: leadId } = await platform.leads.create(org, { businessId: lead.id, idempotencyKey: 'lead' })
  await platform.leads.convert(org, { leadId, idempotencyKey: 'convert' })
  await platform.clients.setRevenue(org, { clientId, totalRevenue: 5, idempotencyKey: 'revenue' })
  const proposal = { title: 'Site', total: 1, currency: 'EUR', idempotencyKey: 'proposal' }
  const { id: proposalId } = await platform.proposals.create(org, proposal)
  await platform.proposals.send(org, { proposalId })
  await platform.proposals.accept(org, { proposalId, signedBy: 'Z. Quist', idempotencyKey: 'accept' })
  await sql`
    insert into business_api.delivery_attempts (organization_id, delivery_id, number, started_at, duration_ms, body_excerpt)
    select organization_id, id, 1, now(), 1, ${`no ${person.email}`} from business_api.open_deliveries
    where organization_id = ${org} and type in ('business.created', 'client.created')`
  assert.deepEqual(await placesOf('Quist'), [
    // The email has the value in lower case.
    ...Object.keys(person)
      .filter((field) => field !== 'email')
      .concat('representation')
      .map((column) => `businesses.${column}`)
      .sort(),
    'events.body',
    'idempotency_keys.reply',
    'proposals.signed_by',
  ])

  const progress: number[] = []
  const onProgress = (changed: number): void => void progress.push(changed)
  const proposalIds = [proposalId]
  const first = await settings().organizations.forgetBusiness(org, business.id, { proposalIds, onProgress })
  const second = await settings().organizations.forgetBusiness(org, lead.id)
  for (const value of given) assert.deepEqual(await placesOf(value), [], value)
  const one = { businesses: 1, events: 2, delivery_attempts: 2 }
  assert.deepEqual(first.changed, { ...one, proposals: 1, idempotency_keys: 2 })
  assert.deepEqual(second.changed, { ...one, proposals: 0, idempotency_keys: 3 })
  assert.equal(progress.at(-1), 8)
  assert.ok(first.left.length > 0)

  const shown = businessOf({ id: business.id, name: 'Deleted' })
  assert.deepEqual((await platform.clients.get(org, clientId)).business, shown)
})

test('organizations.forgetBusiness() of an unknown business is not_found', async () => {
  await assert.rejects(settings().organizations.forgetBusiness('org_forgets', 'biz_unknown'), {
    code: 'not_found',
    message: 'Cannot forget the business because the organization has no business with this id',
  })
})

test('organizations.forgetPart() only reads the rows of its part, even before the tables are analyzed', async () => {
  const org = 'org_many'
  const { business } = await createPlatform(store).clients.create(org, { name: 'Zoe' })
  await turnOffAutovacuum(sql, 'events', 'finished_deliveries', 'idempotency_keys')
  await sql`
    insert into business_api.events (organization_id, id, type, body, delivery_prefix)
    select ${org}, 'evt_m' || number, 'client.created', '{}', ${TODAY} || 'm' || number from generate_series(10000, 29999) as number`
  await sql`
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at)
    select ${org}, ${TODAY} || 'm' || number, 'evt_m' || number, 'client.created', 'we_m', 'delivered', now(), now()
    from generate_series(10000, 29999) as number`
  await sql`
    insert into business_api.idempotency_keys (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
    select ${org}, 'POST /clients', 'm' || number, '', '', '{}', now() from generate_series(10000, 29999) as number`
  const passes = [
    ['events', 'evt_m12000'],
    ['idempotency_keys', 'POST /clients', 'm12000'],
  ] as const
  for (const after of passes) {
    const read = await rowsReadBy(async (tx) => {
      await tx`
        select business_api.forget_business_part(
          ${org}, ${business.id}, '{}', 100, ${JSON.stringify(after)}::text::jsonb, ${TYPES_WITHOUT_BUSINESS}
        )`
    })
    assert.deepEqual(read, { [after[0]]: 100 })
  }
})

test('organizations.deletePart() only reads the rows of its part, even with statistics from before the organization grew', async () => {
  const org = 'org_grown'
  const fillings = [
    sql`
      insert into business_api.events (organization_id, id, type, body, delivery_prefix)
      select organization, 'evt_g' || number, 'client.created', '{}', ${TODAY} || 'g' || number`,
    sql`
      insert into business_api.open_deliveries (organization_id, id, event_id, type, endpoint_id, due_at)
      select organization, ${TODAY} || 'g' || number, 'evt_g' || number, 'client.created', 'we_g', now()`,
    sql`
      insert into business_api.finished_deliveries
        (organization_id, id, event_id, type, endpoint_id, state, created_at, finished_at)
      select organization, ${TODAY} || 'g' || number, 'evt_g' || number, 'client.created', 'we_g', 'delivered', now(), now()`,
    sql`
      insert into business_api.delivery_attempts (organization_id, delivery_id, number, started_at, duration_ms, body_excerpt)
      select organization, ${TODAY} || 'g' || number, 1, now(), 1, ''`,
    sql`
      insert into business_api.idempotency_keys (organization_id, operation, key, fingerprint, record_id, reply, expires_at)
      select organization, 'POST /clients', 'g' || number, '', '', '{}', now()`,
    sql`
      insert into business_api.projects (organization_id, id, name, status, billing_type, value)
      select organization, 'proj_g' || number, '', 'active', 'fixed', 0`,
  ]
  const tables = [
    'events',
    'open_deliveries',
    'finished_deliveries',
    'delivery_attempts',
    'idempotency_keys',
    'projects',
  ]
  for (const [index, filling] of fillings.entries()) {
    await turnOffAutovacuum(sql, tables[index] ?? '')
    const others = sql`generate_series(1, 5000) as number, (select 'org_small'::text) as o (organization)`
    await sql`${filling} from ${others}`
    await sql`analyze ${sql(`business_api.${tables[index]}`)}`
    const own = sql`generate_series(10000, 13999) as number, (select ${org}::text) as o (organization)`
    await sql`${filling} from ${own}`
  }
  const deleted: Record<string, number> = {}
  let after: string | null = null
  do {
    // Parts of 100 between parts of 2000.
    const part: PartResult = await store.organizations.deletePart({ organizationId: org, limit: 2000, after })
    after = part.next
    if (after === null) break
    const read = await rowsReadBy(async (tx) => {
      const [row] = await tx`
        select (part -> 'counts')::jsonb as counts, part ->> 'next' as next
        from business_api.delete_organization_part(${org}, 100, ${after}::text::jsonb, ${DELETED_TABLES}) as part`
      Object.assign(deleted, row?.counts)
      after = row?.next
    })
    for (const [table, rows] of Object.entries(read)) assert.ok(rows <= 500, `${rows} rows of ${table}`)
  } while (after !== null)
  assert.deepEqual(Object.keys(deleted).sort(), tables.sort())
})

test("organizations.deletePart() doesn't read deleted rows to find references to a row", async () => {
  const org = 'org_referring'
  await turnOffAutovacuum(sql, 'businesses', 'leads')
  const fill = async (organization: string): Promise<void> => {
    await sql`
      insert into business_api.businesses (organization_id, id, name)
      select ${organization}, 'biz_r' || number, '' from generate_series(10000, 29999) as number`
    await sql`
      insert into business_api.leads (organization_id, id, business_id, stage, created_at)
      select ${organization}, 'lead_r' || number, 'biz_r' || number, 'new', now()
      from generate_series(10000, 29999) as number`
  }
  await fill('org_analyzed')
  await sql`analyze business_api.businesses, business_api.leads`
  await fill(org)
  let part: PartResult | null = null
  do {
    const after: string | null = part?.next ?? null
    part = await store.organizations.deletePart({ organizationId: org, limit: 25_000, after })
  } while (part.counts.leads === undefined)
  const [plan] = await sql`
    explain (analyze, buffers, format json)
    select business_api.delete_organization_part(${org}, 100, ${part.next}::text::jsonb, ${DELETED_TABLES})`
  const [{ Plan: top }] = plan?.['QUERY PLAN'] ?? []
  const pages = top['Shared Hit Blocks'] + top['Shared Read Blocks']
  assert.ok(pages < 6000, `${pages} pages`)
  const [left] =
    await sql`select count(*)::int as count from business_api.businesses where organization_id = ${org}`
  assert.equal(left?.count, 19_900)
})

/** Returns how many rows of each table in the schema `work` has read. */
async function rowsReadBy(
  work: (tx: TransactionSql) => Promise<void>,
): Promise<Readonly<Record<string, number>>> {
  return sql.begin(async (tx) => {
    const read = () => tx<{ name: string; rows: number }[]>`
      select relname as name, (seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows
      from pg_stat_xact_user_tables where schemaname = 'business_api'`
    const before = new Map((await read()).map(({ name, rows }) => [name, rows]))
    await work(tx)
    const counts: Record<string, number> = {}
    for (const { name, rows } of await read()) {
      const found = rows - (before.get(name) ?? 0)
      if (found > 0) counts[parentOf(name)] = (counts[parentOf(name)] ?? 0) + found
    }
    return counts
  })
}
