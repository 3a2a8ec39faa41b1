import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createPostgresStore, migrate, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings, type DeveloperSettings } from '../../lib/settings.ts'
import { cliOn, SECRET_KEY } from '../cli/_cli.ts'
import { type MovedServer, startMovedServer } from './_life-clock.ts'
import { type Customer, createCustomer } from './_life-customer.ts'
import { auditDeliveries, type Behaviour, Ledger } from './_life-ledger.ts'
import {
  assertDropped,
  assertFlat,
  assertNothingLeft,
  describeSizes,
  listPartitions,
  measure,
  type Sizes,
  vacuum,
} from './_life-tables.ts'
import {
  dieWithClaims,
  drain,
  insist,
  publishBatch,
  retried,
  TRACEPARENT,
  type VolumeEvent,
  WAITS_MS,
} from './_life-volume.ts'

// A busy installation over a long time, in a short time: the clocks are moved, a day at a time. It meets everything that
// installations meet: endpoints that come and go, are paused, fail and recover; rotations; imports; a deletion; ended connections and
// crashes. Then everything is compared with the ledger.
//
//   LIFE_DAYS=730 LIFE_DELIVERIES=10000000 tsx test/_with-postgres.ts node --import tsx --test test/faults/long-life.slow.ts

const DAYS = Number(process.env.LIFE_DAYS ?? 60)
const DELIVERIES = Number(process.env.LIFE_DELIVERIES ?? 100_000)
const DAY_MS = 24 * 60 * 60 * 1000
const RETENTION_DAYS = Math.min(30, Math.max(3, Math.round(DAYS / 6)))
const RETENTION_MS = RETENTION_DAYS * DAY_MS
/** Events are purged by the day, and a day is kept until all of it is old. */
const OLD_DAYS = RETENTION_DAYS + 3
const DELETION_DAY = Math.round(DAYS * 0.6)
const LONG_PAUSE = { from: Math.round(DAYS * 0.35), days: Math.round(RETENTION_DAYS * 1.5) }
/** Of an average event. */
const ENDPOINTS_PER_EVENT = 3.1

const ORGANIZATIONS = ['org_a', 'org_b', 'org_c', 'org_d', 'org_leaving'] as const
const CUSTOMER = 'org_customer'
const EVENTS_A_DAY = Math.ceil(DELIVERIES / DAYS / ENDPOINTS_PER_EVENT / ORGANIZATIONS.length)
/** A late evening of October, so that every life meets a turn of the year. */
const STARTS_AT = Date.UTC(2030, 9, 25, 22, 15)

let server: MovedServer
let store: PostgresStore
let settings: DeveloperSettings
let customer: Customer
const ledger = new Ledger()

before(async () => {
  server = await startMovedServer(STARTS_AT)
  await migrate(server.url, { logger: false })
  store = openStore()
  settings = createDeveloperSettings(store, {
    allowHttp: true,
    allowPrivateNetworks: true,
    secretKeys: [SECRET_KEY],
  })
  customer = await createCustomer(store, CUSTOMER, { secretKeys: [SECRET_KEY], retentionMs: RETENTION_MS })
})

after(async () => {
  await customer?.close()
  await store?.close()
  await server?.close()
})

function openStore(): PostgresStore {
  const url = new URL(server.url)
  url.searchParams.set('application_name', 'life')
  return createPostgresStore(url.href, { maxConnections: 8 })
}

test(`a life of ${DAYS} days with ${DELIVERIES} deliveries leaves what it should, and nothing else`, async (t) => {
  const begunAt = performance.now()
  await assertMoved()
  for (const organizationId of ORGANIZATIONS) {
    await register(organizationId, 'answering')
    await register(organizationId, 'answering', ['project.completed'])
    await register(organizationId, 'flaky')
  }

  const partitions = new Set<string>()
  const counts = { terminated: 0, crashes: 0, died: 0 }
  let middle: Sizes = {}
  for (let day = 1; day <= DAYS; day++) {
    const volume = { store, ledger, without: [CUSTOMER] }
    if (day > 1) await changeEndpoints(day)
    if (day === DELETION_DAY) await deleteOrganization('org_leaving')
    await publishDay(day, 'daily')
    if (day % 7 === 3) counts.died += await dieWithClaims(volume)
    const troubles = makeTrouble(day, counts)
    const before = { repeated: ledger.repeated, crashes: counts.crashes }
    await Promise.all([drain(volume), customer.live(day), troubles])
    for (const waitMs of WAITS_MS) {
      await server.move(waitMs)
      await drain(volume)
      await customer.runLoop()
    }
    if (counts.crashes === before.crashes)
      assert.equal(ledger.repeated, before.repeated, 'nothing arrives twice without a crash')
    for (const name of await listPartitions(server.sql)) partitions.add(name)
    await server.move(DAY_MS - sum(WAITS_MS))
    if (day % 5 === 0) await vacuum(server.sql)
    if (day === Math.round(DAYS * 0.55)) middle = await measure(server.sql)
    if (day % Math.ceil(DAYS / 6) === 0) {
      await drain(volume)
      const found = await auditDeliveries(server.sql, ledger, organizations(), RETENTION_MS)
      t.diagnostic(
        `day ${day}, ${seconds(begunAt)} s: ${ledger.deliveries} deliveries; ${JSON.stringify(found)}`,
      )
    }
  }

  // The last day.
  const volume = { store, ledger, without: [CUSTOMER] }
  for (let run = 0; run < 3; run++) {
    await drain(volume)
    await customer.runLoop()
    await server.move(61 * 60 * 1000)
  }
  await finishPurge()
  const found = await auditDeliveries(server.sql, ledger, organizations(), RETENTION_MS)
  const line = await customer.audit(server.sql)
  await assertNothingLeft(server.sql, OLD_DAYS)
  await vacuum(server.sql)
  const end = await measure(server.sql)
  const dropped = await assertDropped(server.sql, partitions, DAYS)

  t.diagnostic(`${seconds(begunAt)} s; found ${JSON.stringify(found)}`)
  t.diagnostic(
    `${ledger.published} events, ${ledger.deliveries} deliveries, ${ledger.attempts} attempts, ${ledger.delivered} delivered, ` +
      `${ledger.failed} failed deliveries, ${ledger.repeated} repeated after crashes`,
  )
  t.diagnostic(
    `${line}; ${JSON.stringify(counts)}, ${retried.count} statements again, ${dropped} partitions dropped`,
  )
  t.diagnostic(`megabytes in the middle ${describeSizes(middle)}; at the end ${describeSizes(end)}`)
  await assertDoctor()
  assertFlat(middle, end)
})

// --- The clock ---

/** Every path of time goes through the moved clock. */
async function assertMoved(): Promise<void> {
  const { sql } = server
  const since = Date.now()
  const key = await settings.apiKeys.create('org_clock', { name: 'Clock', scopes: ['clients:read'] })
  await sql`select business_api.publish_event('org_clock', 'project.completed', '{}'::jsonb, 'evt_clock')`
  await store.apiKeys.markUsed('org_clock', key.id)
  const rows = await sql`
    select 'event' as what, business_api.published_at(delivery_prefix) as at from business_api.events where organization_id = 'org_clock'
    union all select 'audit', changed_at from business_api.audit_entries where organization_id = 'org_clock'
    union all select 'use', last_used_at from business_api.api_keys where organization_id = 'org_clock'
    union all select 'migration', max(applied_at) from business_api.migrations
    union all select 'now', now()
    union all select 'statement', statement_timestamp()
    union all select 'clock', clock_timestamp()
    union all select 'catalogue', pg_catalog.now()`
  assert.equal(rows.length, 8)
  for (const { what, at } of rows)
    assert.ok(
      Math.abs(new Date(at).getTime() - since) < 120_000,
      `${what} is at ${at}, not ${new Date(since)}`,
    )
  await settings.organizations.delete('org_clock')
}

// --- Days ---

function organizations(): readonly string[] {
  return ORGANIZATIONS.filter((id) => [...ledger.endpoints.values()].some((e) => e.organizationId === id))
}

async function publishDay(day: number, which: string): Promise<void> {
  for (const organizationId of organizations()) {
    const events = Array.from({ length: EVENTS_A_DAY }, (_, n): VolumeEvent => {
      const id = `${which}-${day}-${n}-${n % 10}`
      const type = n % 2 === 0 ? 'project.completed' : 'support.ticket_created'
      const data = { projectId: `proj_${n}`, name: `Project ${n} of day ${day}`, text: 'x'.repeat(100) }
      if (n % 50 !== 7) return { id: `${organizationId}-${id}`, type, data }
      return { id: `${organizationId}-${id}-traced`, type, data, traceparent: TRACEPARENT }
    })
    for (let from = 0; from < events.length; from += 500)
      await publishBatch(server.sql, ledger, organizationId, events.slice(from, from + 500))
    // The first event of an id stands.
    const [first] = events
    if (first && day % 4 === 0)
      await insist(
        () => server.sql`
          select business_api.publish_event(${organizationId}, 'project.completed', '{"again": true}'::jsonb, ${first.id})`,
      )
  }
}

async function register(
  organizationId: string,
  behaviour: Behaviour,
  types: readonly ['project.completed'] | null = null,
) {
  const { id } = await insist(() =>
    settings.endpoints.register(organizationId, {
      url: `https://${behaviour}.example/`,
      ...(types && { types }),
    }),
  )
  const endpoint = {
    organizationId,
    id,
    types,
    behaviour,
    state: 'enabled',
    wasClosed: false,
    overlapUntil: 0,
  } as const
  ledger.endpoints.set(id, { ...endpoint })
}

function endpointsOf(organizationId: string) {
  return [...ledger.endpoints.values()].filter(
    (endpoint) => endpoint.organizationId === organizationId && endpoint.state !== 'removed',
  )
}

async function changeEndpoints(day: number): Promise<void> {
  await comeAndGo(day)
  await rest(day)
  await failAndRecover(day)
  const rotating = endpointsOf(ORGANIZATIONS[day % 4] ?? 'org_a')[0]
  if (rotating && day % 3 === 0 && rotating.overlapUntil < Date.now()) {
    await insist(() => settings.endpoints.rotateSecret(rotating.organizationId, rotating.id))
    rotating.overlapUntil = Date.now() + DAY_MS
  }
}

async function comeAndGo(day: number): Promise<void> {
  const organizationId = ORGANIZATIONS[day % 4] ?? 'org_a'
  if (day % 5 === 0) await register(organizationId, 'answering')
  const guest = endpointsOf(organizationId)[4]
  if (guest?.state !== 'enabled') return
  await insist(() => settings.endpoints.remove(guest.organizationId, guest.id)).catch((error) => {
    // Removed by the call whose answer was lost.
    if (error.code !== 'not_found') throw error
  })
  ledger.close(guest.id, 'removed')
}

async function rest(day: number): Promise<void> {
  const setPaused = async (organizationId: string, isPaused: boolean): Promise<void> => {
    const [endpoint] = endpointsOf(organizationId)
    if (endpoint === undefined) return
    const { pause, resume } = settings.endpoints
    await insist(() => (isPaused ? pause : resume)(organizationId, endpoint.id))
    endpoint.state = isPaused ? 'paused' : 'enabled'
  }
  if (day % 10 === 3) await setPaused('org_b', true)
  if (day % 10 === 6) await setPaused('org_b', false)
  if (day === LONG_PAUSE.from) await setPaused('org_c', true)
  if (day === LONG_PAUSE.from + LONG_PAUSE.days) await setPaused('org_c', false)
}

/** The fourth organization has an endpoint that fails for days, is disabled, repaired and recovered; the first one has a gone endpoint. */
async function failAndRecover(day: number): Promise<void> {
  if (day % 20 === 4) await register('org_d', 'failing')
  if (day % 25 === 8) await register('org_a', 'gone')
  for (const endpoint of [...ledger.endpoints.values()].filter(({ state }) => state === 'disabled')) {
    const { organizationId, id } = endpoint
    const shown = await insist(() => settings.endpoints.get(organizationId, id))
    assert.match(shown.state, /disabled|enabled/)
    if (shown.state === 'disabled') await insist(() => settings.endpoints.enable(organizationId, id))
    endpoint.state = 'enabled'
    endpoint.behaviour = 'answering'
    await insist(() => settings.deliveries.recover(organizationId, { endpointId: id }))
    ledger.reopen(endpoint)
  }
}

async function deleteOrganization(organizationId: string): Promise<void> {
  await insist(() => settings.organizations.delete(organizationId))
  ledger.forget(organizationId)
  const tables = await server.sql`
    select c.relname as table from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'organization_id'
     where c.relnamespace = 'business_api'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition`
  for (const { table } of tables) {
    const [row] = await server.sql`
      select count(*)::int as rows from business_api.${server.sql(table)} where organization_id = ${organizationId}`
    assert.equal(row?.rows, 0, `${table} has rows of a deleted organization`)
  }
}

/** Ended connections now and then, and a crash. */
async function makeTrouble(day: number, counts: { terminated: number; crashes: number }): Promise<void> {
  if (day % 6 === 2) {
    for (let round = 0; round < 3; round++) {
      await sleep(30)
      counts.terminated += await server.terminate()
    }
  }
  if (day % 20 === 11) {
    await sleep(50)
    await server.crash()
    // As autovacuum does within minutes: a crash loses the maps of free space, and tables and indexes would grow instead.
    await vacuum(server.sql)
    counts.crashes++
  }
}

// --- The end ---

async function finishPurge(): Promise<void> {
  for (let part = 0; part < 10_000; part++) {
    const { isDone } = await store.deliveries.continuePurge({
      eventsAfterMs: RETENTION_MS,
      limit: 1000,
      share: 1,
    })
    if (isDone) return
  }
  assert.fail('the purge does not end')
}

async function assertDoctor(): Promise<void> {
  const { exitCode, stdout, stderr } = await cliOn(server.url)('doctor')
  assert.equal(exitCode, 0, `${stdout}${stderr}`)
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

function seconds(since: number): number {
  return Math.round((performance.now() - since) / 1000)
}
