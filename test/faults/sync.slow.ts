// 10,000 clients that are changed all the time, also in transactions that stay open for seconds, and a customer's programs that keep
// copies of them: by polling, by webhooks with a backfill, and by both. The programs of both sides are killed and their connections
// cut at random. Three seeds, about a minute each; SYNC_SEED sets another seed, and only that one.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Sql } from 'postgres'
import { findFreePort } from '../../examples/demo/postgres-machine.ts'
import { createIds } from '../../lib/base/ids.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase } from '../_database.ts'
import { clientsOf, randomOf } from '../postgres/_sync.ts'
import { makeApiKey, until } from './_fixture.ts'
import { type NetworkProxy, startProxy } from './_proxy.ts'
import type { SyncHostConfig } from './_sync-host.ts'
import type { SyncIntegratorConfig, SyncLine } from './_sync-integrator.ts'
import type { EventLine, SyncSubscriberConfig } from './_sync-subscriber.ts'
import { createWorker, type Worker } from './_worker.ts'

const SEEDS = process.env.SYNC_SEED ? [Number(process.env.SYNC_SEED)] : [1, 2, 3]
const ORGANIZATION = 'org_sync'
const CLIENTS = 10_000
const LEADS = 1000
/** How long changes and faults go on, and how long everything may take to end right afterwards. */
const UNREST_MS = 20_000
const REST_MS = 90_000
/** The longest life of each program, from its first line to the kill. */
const LIVES_MS = { integrator: 3000, subscriber: 5000, host: 9000 } as const

for (const seed of SEEDS) {
  test(`copies of 10,000 clients that change, by polling, by webhooks and by both, end right through kills and cuts, seed ${seed}`, {
    timeout: 200_000,
  }, async (t) => {
    // Printed and not a diagnostic, because not every reporter shows diagnostics and this test is run for the numbers.
    console.log(`seed ${seed}: ${await assertEndsRight(t, seed)}`)
  })
}

/** @returns a line of what happened */
async function assertEndsRight(t: TestContext, seed: number): Promise<string> {
  const startedAt = performance.now()
  const scene = await setScene(t, seed)
  const { host, integrator } = scene
  await Promise.all([host.start(), integrator.start()])

  // The tokens first, then the endpoint, then the backfill: what changes after the tokens comes by polling.
  await integrator.printed('positioned', REST_MS)
  const subscriber = await scene.subscribe()
  await subscriber.start()
  host.send('backfill')
  const cuts = await causeFaults(scene, subscriber, seed)

  const restingAt = performance.now()
  host.send('stop')
  host.send('backfill')
  await host.printed('stopped', REST_MS)
  await host.printed('backfilled', REST_MS)
  integrator.send('finish')
  await integrator.printed('finished', REST_MS)
  await until('every delivery is made', () => isDelivered(scene.sql), REST_MS)
  const restMs = performance.now() - restingAt
  for (const worker of [host, integrator, subscriber]) worker.assertUnharmed()

  const counts = await assertCopies(scene)
  return [
    `host killed ${host.kills} times, integrator ${integrator.kills}, subscriber ${subscriber.kills}`,
    `connections cut ${cuts} times`,
    counts,
    `right ${Math.round(restMs)} ms after the last change`,
    `${Math.round((performance.now() - startedAt) / 1000)} s in all`,
  ].join('; ')
}

// --- The scene ---

interface Scene {
  readonly sql: Sql
  /** Between host and database, integrator and API, API and subscriber. */
  readonly networks: readonly NetworkProxy[]
  readonly host: Worker
  readonly integrator: Worker
  readonly pollPath: string
  readonly webhookPath: string
  /** Registers the endpoint; gives the subscriber. */
  subscribe(): Promise<Worker>
}

async function setScene(t: TestContext, seed: number): Promise<Scene> {
  const database = await createTestDatabase()
  const sql = database.sql({ max: 4 })
  await fill(sql)
  const { key } = await makeApiKey(database.url, ORGANIZATION)
  const directory = mkdtempSync(join(tmpdir(), 'business-api-sync-'))
  const pollPath = join(directory, 'polls.ndjson')
  const webhookPath = join(directory, 'webhooks.ndjson')
  const [apiPort, webhookPort] = [await findFreePort(), await findFreePort()]
  const toDatabase = await startProxy(database.url)
  const toApi = await startProxy(`http://127.0.0.1:${apiPort}`)
  const toSubscriber = await startProxy(`http://127.0.0.1:${webhookPort}`)
  const networks = [toDatabase, toApi, toSubscriber]
  const endpointId = createIds()('we')
  const secretKey = randomBytes(32).toString('hex')
  const workers: Worker[] = []
  const createOne = (file: string, config: SyncHostConfig | SyncIntegratorConfig | SyncSubscriberConfig) => {
    const worker = createWorker(file, config)
    workers.push(worker)
    return worker
  }

  t.after(async () => {
    await Promise.all(workers.map((worker) => worker.kill()))
    await Promise.all(networks.map((network) => network.close()))
    await database.drop()
    rmSync(directory, { recursive: true })
  })

  return {
    sql,
    networks,
    pollPath,
    webhookPath,
    host: createOne('_sync-host.ts', {
      ...{ databaseUrl: toDatabase.url, port: apiPort, organizationId: ORGANIZATION },
      ...{ endpointId, secretKey, seed },
    }),
    integrator: createOne('_sync-integrator.ts', { url: toApi.url, key, path: pollPath }),
    async subscribe() {
      const store = createPostgresStore(database.url, { maxConnections: 1 })
      const options = { secretKeys: [secretKey], allowHttp: true, allowPrivateNetworks: true }
      const { secret } = await createDeveloperSettings(store, options).endpoints.register(ORGANIZATION, {
        id: endpointId,
        url: toSubscriber.url,
        types: ['client.created', 'lead.created'],
      })
      await store.close()
      return createOne('_sync-subscriber.ts', { port: webhookPort, secret, path: webhookPath })
    },
  }
}

/** The records that were there before everything else. */
async function fill(sql: Sql): Promise<void> {
  const id = (kind: string) => sql`${kind}::text || lpad(i::text, 26, '0')`
  await sql`
    insert into business_api.businesses
      (organization_id, id, name, client_id, client_status, total_revenue, monthly_revenue, converted_at)
    select ${ORGANIZATION}, ${id('biz_')}, 'Atlas ' || i, ${id('cli_')}, 'active', i, 0, now()
    from generate_series(1, ${CLIENTS}::int) as i`
  await sql`
    insert into business_api.leads (organization_id, id, business_id, stage, created_at)
    select ${ORGANIZATION}, ${id('lead_')}, ${id('biz_')}, 'new', now() from generate_series(1, ${LEADS}::int) as i`
}

// --- Faults ---

/** Kills programs and cuts connections at random, and starts the programs again; at the end every program runs. Returns the cuts. */
async function causeFaults(scene: Scene, subscriber: Worker, seed: number): Promise<number> {
  const until = performance.now() + UNREST_MS
  const { host, integrator, networks } = scene
  let cuts = 0

  async function killAgain(worker: Worker, lifeMs: number, random: (below: number) => number): Promise<void> {
    for (;;) {
      await sleep(random(lifeMs))
      if (performance.now() > until) return
      await worker.kill()
      await sleep(random(500))
      await worker.start()
      // The backfill is asked for with every life of the host, and each begins again where it has sent nothing.
      if (worker === host) worker.send('backfill')
    }
  }
  async function cutAgain(random: (below: number) => number): Promise<void> {
    for (;;) {
      await sleep(random(2000))
      if (performance.now() > until) return
      networks[random(networks.length)]?.reset()
      cuts++
    }
  }
  await Promise.all([
    killAgain(integrator, LIVES_MS.integrator, randomOf(seed * 10 + 1)),
    killAgain(subscriber, LIVES_MS.subscriber, randomOf(seed * 10 + 2)),
    killAgain(host, LIVES_MS.host, randomOf(seed * 10 + 3)),
    cutAgain(randomOf(seed * 10 + 4)),
  ])
  return cuts
}

async function isDelivered(sql: Sql): Promise<boolean> {
  const [open] = await sql`
    select 1 from business_api.open_deliveries where organization_id = ${ORGANIZATION} limit 1`
  return open === undefined
}

// --- Copies ---

type Records = ReadonlyMap<string, { readonly id: string }>

/** Compares every copy with the database. Returns what the copies were made of. */
async function assertCopies({ sql, pollPath, webhookPath }: Scene): Promise<string> {
  const polled = readLines<SyncLine>(pollPath)
  const received = readLines<EventLine>(webhookPath)
  const announced: string[] = []
  for (const [resource, type] of [
    ['clients', 'client.created'],
    ['leads', 'lead.created'],
  ] as const) {
    const truth: Records =
      resource === 'clients' ? await clientsOf(sql, ORGANIZATION) : await leadsOf(sql, ORGANIZATION)
    assertSame(polledCopy(polled, 'whole', resource), truth, `${resource} by polling`)

    const events = received.filter((event) => event.type === type)
    const told = new Map(events.map(({ record }) => [record.id, record]))
    assert.deepEqual(
      [...truth.keys()].filter((id) => !told.has(id)),
      [],
      `${resource} that no webhook has told`,
    )
    assert.deepEqual(
      [...told.keys()].filter((id) => !truth.has(id)),
      [],
      `${resource} that were rolled back`,
    )
    assert.equal(events.length, told.size, `${resource} with two events`)

    // A webhook may be older than a poll: its record is taken where there is none yet.
    const changes = polledCopy(polled, 'changes', resource)
    assertSame(new Map([...told, ...changes]), truth, `${resource} by webhooks and polling`)
    announced.push(`${events.filter(({ eventId }) => eventId.startsWith('evt_backfill_')).length} backfilled`)
    announced.push(`${truth.size} ${resource}`)
  }
  const begins = polled.flatMap((line, place) => ('begun' in line ? [place] : []))
  const halfway = begins.filter((place) => {
    const before = polled[place - 1]
    return before !== undefined && (!('isLast' in before) || !before.isLast)
  })
  return `${announced.join(', ')}; ${polled.length} lines of polls, resumed halfway ${halfway.length} times`
}

function readLines<Line>(path: string): Line[] {
  const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean)
  return lines.map((line) => JSON.parse(line))
}

function polledCopy(lines: readonly SyncLine[], copy: string, resource: string): Records {
  const records = lines.flatMap((line) =>
    'records' in line && line.copy === copy && line.resource === resource ? line.records : [],
  )
  return new Map(records.map((record) => [record.id, record]))
}

/** With the ids that differ first, because a difference of maps of this size takes minutes to print. */
function assertSame(copy: Records, truth: Records, name: string): void {
  const ids = [...new Set([...copy.keys(), ...truth.keys()])]
  const wrong = ids.filter((id) => !isDeepStrictEqual(copy.get(id), truth.get(id)))
  const shown = wrong.slice(0, 5).map((id) => ({ copy: copy.get(id), database: truth.get(id) }))
  assert.deepEqual(shown, [], `${wrong.length} ${name} differ`)
}

async function leadsOf(sql: Sql, organizationId: string): Promise<Records> {
  const rows = await sql<{ id: string; json: { id: string } }[]>`
    select id, representation::json as json from business_api.leads where organization_id = ${organizationId}`
  return new Map(rows.map(({ id, json }) => [id, json]))
}
