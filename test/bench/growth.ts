import postgres from 'postgres'
import type { AdmissionRequest } from '../../lib/access/admission.ts'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { createIds } from '../../lib/base/ids.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createInspector } from '../../lib/postgres/schema/inspector.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { newClient } from '../../lib/resources/clients.ts'
import { createActivitySettings } from '../../lib/settings/activity.ts'
import { createDeveloperSettings, type DeveloperSettings } from '../../lib/settings.ts'
import { TODAY } from '../_days.ts'
import { percentile } from '../_percentile.ts'
import { startDatabase } from './database.ts'
import { addEndpoint } from './deliveries/parts.ts'

// The cost of a call in a database that grows: lists, creates and admissions with up to 5 M clients in the organization and up to
// 100,000 organizations beside it, and the reads of settings and of operators with up to 1 M deliveries and audit entries. Each
// size is measured before the tables are analyzed and afterwards, and by a session that has kept its plans since the database was
// small as well as by a new session. Autovacuum is off, so that no analysis comes between. The goal: at most 1.3 times the cost at
// a thousand rows. The counts of doctor and status grow with the failed deliveries, one delivery in a thousand, and end at 10,000.
// CLIENTS, ORGANIZATIONS and ROWS set other sizes for a trial.

const CLIENTS = sizes(process.env.CLIENTS, [1000, 100_000, 5_000_000])
const ORGANIZATIONS = sizes(process.env.ORGANIZATIONS, [1000, 100_000])
const ROWS = sizes(process.env.ROWS, [1000, 1_000_000])
const CALLS = 300
const ROUNDS = 3
const GOAL = 1.3
const ORGANIZATION = 'org_bench'
const ENDPOINTS = 20
const LIMIT = { perSecond: 1e6, burst: 1e9 }

/** A call by name. */
type Calls = Readonly<Record<string, () => Promise<unknown>>>
/** The calls of a session. */
type CallsOf = (store: BusinessApiStore) => Calls

const database = await startDatabase()
const { sql, url } = database
const inspector = createInspector(url)
try {
  await sql`alter system set autovacuum = off`
  await sql`alter database postgres set synchronous_commit = off`
  await sql`select pg_reload_conf()`
  await measureGrowth('clients of the organization', CLIENTS, apiCalls(await prepareApi()), fillClients)
  await measureGrowth('organizations', ORGANIZATIONS, apiCalls(await prepareApi()), fillOrganizations)
  await measureGrowth('deliveries and audit entries', ROWS, readCalls(await prepareReads()), fillLogs)
} finally {
  await inspector.close()
  await database.stop()
}

function sizes(given: string | undefined, byDefault: readonly number[]): readonly number[] {
  return given === undefined ? byDefault : given.split(',').map(Number)
}

// --- Measuring ---

/** Measures every call at every size; the first size is the base of the ratios. */
async function measureGrowth(
  of: string,
  counts: readonly number[],
  callsOf: CallsOf,
  fill: (from: number, to: number) => Promise<unknown>,
): Promise<void> {
  const kept = openStore()
  const base = new Map<string, number>()
  const report = async (label: string, store: BusinessApiStore): Promise<void> => {
    for (const [name, ms] of await measure(callsOf(store))) {
      if (!base.has(name)) base.set(name, ms)
      const ratio = ms / (base.get(name) ?? Number.NaN)
      const verdict = ratio <= GOAL ? '' : `  goal ${GOAL} MISSED`
      console.log(`${label}: ${name.padEnd(36)} ${ms.toFixed(3)} ms  × ${ratio.toFixed(2)}${verdict}`)
    }
  }
  try {
    let filled = 0
    for (const count of counts) {
      await fill(filled, count)
      filled = count
      const label = `${count.toLocaleString('en')} ${of}`
      if (base.size === 0) await sql`vacuum analyze`
      else {
        await report(`${label}, not analyzed, kept session`, kept)
        await withNewStore((store) => report(`${label}, not analyzed, new session`, store))
        await sql`vacuum analyze`
      }
      await report(`${label}, analyzed, kept session`, kept)
      if (filled !== counts[0])
        await withNewStore((store) => report(`${label}, analyzed, new session`, store))
    }
  } finally {
    await kept.close()
  }
}

function openStore(): BusinessApiStore & { close(): Promise<void> } {
  return createPostgresStore(postgres(url, { max: 1, onnotice: () => {} }))
}

async function withNewStore(work: (store: BusinessApiStore) => Promise<void>): Promise<void> {
  const store = openStore()
  try {
    await work(store)
  } finally {
    await store.close()
  }
}

/** The least of the medians of a few rounds for each call, in milliseconds: another process can only add to a time. */
async function measure(calls: Calls): Promise<Map<string, number>> {
  const least = new Map<string, number>()
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, call] of Object.entries(calls)) {
      const times: number[] = []
      for (let made = 0; made < CALLS; made++) {
        const begunAt = performance.now()
        await call()
        times.push(performance.now() - begunAt)
        // A read of many rows is slow enough to measure in a few calls.
        if (times.length >= 10 && performance.now() - begunAt > 50) break
      }
      least.set(name, Math.min(least.get(name) ?? Number.POSITIVE_INFINITY, percentile(times, 0.5)))
    }
  }
  return least
}

// --- Lists, creates and admissions ---

async function prepareApi(): Promise<string> {
  const store = openStore()
  try {
    const settings: DeveloperSettings = createDeveloperSettings(store)
    await settings.rateLimits.set(ORGANIZATION, LIMIT)
    const scopes = ['clients:read', 'clients:write'] as const
    const { key } = await settings.apiKeys.create(ORGANIZATION, { name: 'bench', scopes, rateLimit: LIMIT })
    if ((await settings.endpoints.list(ORGANIZATION)).length === 0)
      await addEndpoint(store, ORGANIZATION, 'http://127.0.0.1:9/')
    return key
  } finally {
    await store.close()
  }
}

function apiCalls(key: string): CallsOf {
  const ids = createIds()
  const request: AdmissionRequest = {
    keyDigest: digestApiKey(key),
    scope: 'clients:read',
    rateLimits: { key: LIMIT, organization: LIMIT },
    organizationHint: ORGANIZATION,
  }
  const input = { name: 'Atlas Ceramics', city: 'Tunis', email: 'a@atlas.example' }
  return (store) => ({
    'list of 50': () => store.clients.admitAndList(request, { limit: 50 }),
    'list of 1': () => store.clients.admitAndList(request, { limit: 1 }),
    admission: () => store.apiKeys.admit(request),
    'create with an idempotency key': () => {
      const { record, events, representation } = newClient(input, { ids, now: Date.now() })
      const idempotency = {
        operation: 'POST /api/v1/clients',
        key: record.id,
        fingerprint: 'f'.repeat(64),
        reply: JSON.stringify({ data: representation }),
        windowMs: 604_800_000,
        waitMs: 4000,
      }
      return store.clients.create({ organizationId: ORGANIZATION, record, events, idempotency })
    },
  })
}

/** The ids are older than those that the benchmark makes. */
async function fillClients(from: number, to: number): Promise<void> {
  await insertClients(
    sql`select ${ORGANIZATION}, number from generate_series(${from + 1}::int, ${to}::int) as number`,
  )
}

/** Organizations with ten clients and an API key each. */
async function fillOrganizations(from: number, to: number): Promise<void> {
  const organizations = sql`select 'org_' || number as id, number from generate_series(${from + 1}::int, ${to}::int) as number`
  await sql`
    insert into business_api.api_keys (organization_id, id, digest, name, scopes, prefix, last_four, created_at)
    select id, 'key_' || number, 'digest_' || number, 'bench', '{clients:read}', 'biz_live_x', 'xxxx', now()
    from (${organizations}) as organization`
  await insertClients(
    sql`select id, organization.number * 10 + digit from (${organizations}) as organization, generate_series(0, 9) as digit`,
  )
}

/**
 * Inserts clients.
 *
 * @param rows the organization and a number that is the only one of its kind
 */
async function insertClients(rows: postgres.PendingQuery<postgres.Row[]>): Promise<void> {
  const idOf = (kind: string) => sql`${kind}::text || lpad(upper(to_hex(number)), 24, '0')`
  await sql`
    insert into business_api.businesses
      (organization_id, id, name, city, client_id, client_status, total_revenue, monthly_revenue, converted_at)
    select organization_id, ${idOf('biz_00')}, 'Atlas Ceramics', 'Tunis', ${idOf('cli_00')}, 'active', 0, 0, now()
    from (${rows}) as given (organization_id, number)`
}

// --- Reads of settings and of operators ---

async function prepareReads(): Promise<readonly string[]> {
  const store = openStore()
  try {
    const endpoints = Array.from({ length: ENDPOINTS }, () =>
      addEndpoint(store, ORGANIZATION, 'http://127.0.0.1:9/'),
    )
    return await Promise.all(endpoints)
  } finally {
    await store.close()
  }
}

function readCalls(endpointIds: readonly string[]): CallsOf {
  const [endpointId = ''] = endpointIds
  return (store) => ({
    'deliveries.list()': () => store.deliveries.list(ORGANIZATION, {}, 50, null),
    'deliveries.list() of an endpoint': () => store.deliveries.list(ORGANIZATION, { endpointId }, 50, null),
    'deliveries.list() of a type': () =>
      store.deliveries.list(ORGANIZATION, { type: 'invoice.paid' }, 50, null),
    'deliveries.list() of a rare type': () =>
      store.deliveries.list(ORGANIZATION, { type: 'project.completed' }, 50, null),
    'audit.list()': () => store.audit.list(ORGANIZATION, {}, 50, null),
    'audit.list() of an action': () =>
      store.audit.list(ORGANIZATION, { action: 'endpoint.registered' }, 50, null),
    'activity()': () => createActivitySettings(store, Date.now)(ORGANIZATION),
    'the backlog of doctor': () => inspector.backlog(),
    'the retention of doctor': () => inspector.retention(),
    'the counts of status': () => inspector.counts(),
  })
}

/** Delivered deliveries of all endpoints, one in a thousand failed, and audit entries. */
async function fillLogs(from: number, to: number): Promise<void> {
  const numbers = sql`generate_series(${from + 1}::int, ${to}::int) as number`
  await sql`
    insert into business_api.events (organization_id, id, type, body, delivery_prefix)
    select ${ORGANIZATION}, 'evt_00' || lpad(upper(to_hex(number)), 24, '0'),
           case when number % 200000 = 1 then 'project.completed' when number % 10 = 0 then 'invoice.paid' else 'client.created' end,
           repeat('x', 400),
           ${TODAY} || lpad(upper(to_hex(number)), 16, '0')
    from ${numbers}`
  await sql`
    insert into business_api.finished_deliveries
      (organization_id, id, event_id, type, endpoint_id, state, created_at, attempts, reason, finished_at)
    select ${ORGANIZATION}, ${TODAY} || lpad(upper(to_hex(number)), 16, '0'), 'evt_00' || lpad(upper(to_hex(number)), 24, '0'),
           case when number % 200000 = 1 then 'project.completed' when number % 10 = 0 then 'invoice.paid' else 'client.created' end,
           endpoint.id, case when number % 1000 = 0 then 'failed' else 'delivered' end,
           now() - interval '1 day' + number * interval '1 millisecond', 1,
           case when number % 1000 = 0 then 'http_500' end, now() - interval '1 day' + number * interval '1 millisecond'
    from ${numbers}
    join (
      select id, row_number() over (order by id) - 1 as place from business_api.webhook_endpoints
      where organization_id = ${ORGANIZATION}
    ) as endpoint on endpoint.place = number % ${ENDPOINTS}::int`
  await sql`
    insert into business_api.audit_entries (organization_id, id, changed_at, actor, action, subject_id, details)
    select ${ORGANIZATION}, 'aud_00' || lpad(upper(to_hex(number)), 24, '0'), now() - interval '1 day', 'user_' || number % 50,
           case when number % 10 = 0 then 'endpoint.registered' else 'api_key.created' end, 'key_' || number, '{}'
    from ${numbers}`
}
