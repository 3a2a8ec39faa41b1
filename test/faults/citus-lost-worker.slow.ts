// A worker of a cluster goes away under load and comes back: about a minute for each way of going.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import postgres from 'postgres'
import { sleep } from '../../lib/base/time.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { type CitusDatabase, createCitusDatabase, WITH_CITUS } from '../_citus.ts'
import { percentile } from '../_percentile.ts'
import { organizationsByNode, startLoad, tallyOf } from './_citus-load.ts'
import { setScene } from './_deliveries.ts'
import { until } from './_fixture.ts'
import { createPublished } from './_publishers.ts'
import { assertDelivered, describeTally, untilDelivered } from './_tally.ts'

const CALM_MS = 8000
const AWAY_MS = 20_000
const CALLERS = 2

/** The worker is stopped, or the worker and the way to it are cut without a word. */
for (const way of ['stopped', 'silent'] as const) {
  test(
    `a worker that is ${way} costs its own organizations 503, and no other organization anything`,
    WITH_CITUS,
    async (t) => {
      const database = await createCitusDatabase({ proxied: true })
      t.after(() => database.drop())
      const scene = await setScene(t, database.url)
      const { sql } = scene
      const byNode = [...(await organizationsByNode(database, sql, 2))]
      const [[lostPort, lost], [, kept]] = byNode as [(typeof byNode)[0], (typeof byNode)[0]]
      const proxy = database.nodes.find(({ port }) => port === lostPort)?.proxy
      assert.ok(proxy)
      const organizations = [...lost, ...kept]
      for (const organizationId of organizations) await scene.subscribe(organizationId, 'answering')
      const deliverers = await Promise.all([scene.startDeliverer(), scene.startDeliverer()])
      const load = await startLoad(database.url, organizations, CALLERS)
      t.after(() => load.host.stop())
      const keys = changeKeys(database.url, [...lost, ...kept])
      t.after(() => keys.stop())

      await sleep(CALM_MS)
      const awayAt = new Date()
      load.phase = 'falling'
      keys.phase = 'away'
      if (way === 'stopped') await proxy.refuse()
      else proxy.fallSilent()
      await sleep(1000)
      load.phase = 'away'
      await sleep(AWAY_MS)
      load.phase = 'rising'
      const backAt = new Date()
      if (way === 'stopped') await proxy.accept()
      else proxy.speak()
      const recoveredMs = await until(
        'the lost organizations are served again',
        () =>
          lost.every((id) =>
            load.samples.some(
              (one) => one.organizationId === id && one.phase === 'rising' && one.status === 200,
            ),
          ),
        30_000,
      )
      await sleep(5000)
      keys.phase = 'back'
      load.phase = 'back'
      await sleep(CALM_MS)
      await load.stop()
      await keys.stop()
      await untilDelivered(scene, 60_000)

      const calmLag = await lagOf(sql, kept, new Date(0), awayAt)
      const awayLag = await lagOf(sql, kept, awayAt, backAt)
      const tell = (of: readonly string[]): string =>
        PHASES.map((phase) => `${phase} ${JSON.stringify(tallyOf(load, phase, of))}`).join(', ')
      console.log(
        [
          `organizations of the worker: ${tell(lost)}`,
          `other organizations: ${tell(kept)}`,
          `deliveries of the others: calm ${JSON.stringify(calmLag)}, away ${JSON.stringify(awayLag)}`,
          `recovered after ${Math.round(recoveredMs)} ms; keys: ${JSON.stringify(keys.counts)}`,
        ].join('\n'),
      )

      await load.assertLedger(sql)
      await assertKeys(database, keys)
      for (const deliverer of deliverers) deliverer.assertUnharmed()
      const published = createPublished()
      published.unnamed = 2 * load.created
      console.log(describeTally(await assertDelivered(scene, published)))
      assert.deepEqual(
        Object.keys(tallyOf(load, 'away', lost).statuses),
        ['503'],
        'the lost organizations got nothing but 503',
      )
      assert.deepEqual(
        Object.keys(tallyOf(load, 'away', kept).statuses),
        ['200'],
        'the others got nothing but 200',
      )
      // By ratios, because the machine may be busy.
      const calm = tallyOf(load, 'calm', kept)
      const away = tallyOf(load, 'away', kept)
      assert.ok(away.p99 < 2 * calm.p99, `requests of the others: p99 ${away.p99} ms instead of ${calm.p99}`)
      assert.ok(
        awayLag.p99 < 1000 + 2 * calmLag.p99,
        `deliveries of the others: p99 ${awayLag.p99} ms instead of ${calmLag.p99}`,
      )
      assert.deepEqual(
        Object.keys(keys.counts).filter((name) => !/^\w+ done$|^(away|back) store_unavailable$/.test(name)),
        [],
        'a change of a key is made or, while the worker is away and once more on each broken connection, refused with store_unavailable',
      )
    },
  )
}

const PHASES = ['calm', 'falling', 'away', 'rising', 'back']

/** The times from event to delivery, in milliseconds, of deliveries that were made in a period. */
async function lagOf(
  sql: postgres.Sql,
  organizations: readonly string[],
  from: Date,
  to: Date,
): Promise<{ count: number; p50: number; p99: number }> {
  const rows = await sql<{ ms: number }[]>`
    select extract(epoch from finished_at - created_at)::float8 * 1000 as ms from business_api.finished_deliveries
    where organization_id = any (${organizations as string[]}) and created_at > ${from} and created_at < ${to}`
  const times = rows.map(({ ms }) => ms)
  return {
    count: times.length,
    p50: Math.round(percentile(times, 0.5)),
    p99: Math.round(percentile(times, 0.99)),
  }
}

interface KeyChanges {
  phase: string
  readonly counts: Record<string, number>
  /** The keys that were made and revoked, by id, as far as the answers tell. */
  readonly made: ReadonlyMap<string, 'there' | 'revoked' | 'unknown'>
  stop(): Promise<void>
}

/** Makes and revokes API keys, of which every node has a copy. */
function changeKeys(databaseUrl: string, organizations: readonly string[]): KeyChanges {
  const store = createPostgresStore(databaseUrl, { maxConnections: 4 })
  const settings = createDeveloperSettings(store)
  const made = new Map<string, 'there' | 'revoked' | 'unknown'>()
  const changes: KeyChanges & { counts: Record<string, number> } = {
    phase: 'calm',
    counts: {},
    made,
    stop: () => (stopping ??= end()),
  }
  let stopping: Promise<void> | undefined
  let isOver = false

  async function note(work: Promise<unknown>): Promise<boolean> {
    const outcome = await work.then(
      () => 'done',
      (error) => (error.code === 'store_unavailable' ? error.code : `${error.code} ${error.message}`),
    )
    const name = `${changes.phase} ${outcome}`
    changes.counts[name] = (changes.counts[name] ?? 0) + 1
    return outcome === 'done'
  }
  async function change(organizationId: string): Promise<void> {
    while (!isOver) {
      let id = ''
      await note(
        settings.apiKeys.create(organizationId, { name: 'Changed', scopes: ['clients:read'] }).then((key) => {
          id = key.id
        }),
      )
      if (id !== '') {
        made.set(id, 'there')
        await sleep(100)
        made.set(id, 'unknown')
        if (await note(settings.apiKeys.revoke(organizationId, id))) made.set(id, 'revoked')
      }
      await sleep(100)
    }
  }
  const running = Promise.all(organizations.map(change))
  async function end(): Promise<void> {
    isOver = true
    await running
    await store.close()
  }
  return changes
}

/** Asserts that every node has the same keys, and each answered change. */
async function assertKeys(database: CitusDatabase, { made }: KeyChanges): Promise<void> {
  const copies = await Promise.all(
    database.nodes.map(async ({ url }) => {
      const node = postgres(url, { max: 1 })
      const rows = await node<{ id: string; is_revoked: boolean; row: string }[]>`
        select k.id, revoked_at is not null as is_revoked, row_to_json(k)::text as row from business_api.api_keys k order by k.id`
      await node.end()
      return [...rows]
    }),
  )
  for (const copy of copies) assert.deepEqual(copy, copies[0], 'every node has the same API keys')
  const found = new Map(copies[0]?.map(({ id, is_revoked }) => [id, is_revoked]))
  for (const [id, state] of made) {
    assert.ok(found.has(id), `the key ${id} was made`)
    if (state !== 'unknown') assert.equal(found.get(id), state === 'revoked', `the key ${id} is ${state}`)
  }
}
