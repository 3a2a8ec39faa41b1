// An organization moves from shard to shard under load, in processes that are killed at a step and followed by others that continue the
// move, or take it back. No create is lost or made twice, no event is left unsent, and nothing stays where the organization was. Moves
// alternate between direct connections and the poolers that are installed.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { BusinessApiError, STORE_UNAVAILABLE } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import type { ShardedStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop } from '../../lib/webhooks.ts'
import { programArguments } from '../_program.ts'
import { createTestSender } from '../delivery/_loop.ts'
import { createTestShards, NAMES, organizationOn } from '../store/_shards.ts'
import { POOLERS } from './_poolers.ts'

/** Random steps at which a move is killed. */
const KILLS = 20
/** Steps between which the map changes: nothing, the target, then both shards are closed, and at last the target is open. */
const FLIP = ['close', 'hold', 'copy', 'tell', 'delete'] as const
const CALLERS = 6
const ORGANIZATION = organizationOn('a', 1)

type Name = (typeof NAMES)[number]

/** Runs a move in a process of its own. @returns the number of its steps; null if it was killed, or failed */
function runMove(urls: string, to: string, killedAt: number | string): Promise<number | null> {
  const args = [
    ...programArguments(join(import.meta.dirname, '_mover.ts')),
    ORGANIZATION,
    to,
    String(killedAt),
    urls,
  ]
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, (error, stdout, stderr) => {
      if (error && error.signal !== 'SIGKILL') reject(new Error(stderr))
      else resolve(error ? null : Number(stdout))
    })
  })
}

/** Makes a create until it has an answer, as a careful caller does. */
async function createOnce(store: ShardedStore, idempotencyKey: string): Promise<string> {
  for (;;) {
    try {
      return (
        await createPlatform(store).clients.create(ORGANIZATION, { name: idempotencyKey, idempotencyKey })
      ).id
    } catch (error) {
      if (!(error instanceof BusinessApiError) || error.code !== STORE_UNAVAILABLE) throw error
      await sleep(20)
    }
  }
}

test(`moves under load, killed at each step of the flip and ${KILLS} random ones, lose nothing and make nothing twice`, async (t) => {
  const shards = await createTestShards()
  const stores = [shards.open(), shards.open()]
  const [store, second] = stores as [ShardedStore, ShardedStore]
  const settings = createDeveloperSettings(store, { allowPlaintextSecrets: true, allowPrivateNetworks: true })
  await settings.endpoints.register(ORGANIZATION, { url: 'https://127.0.0.1:8443/' })

  const sender = createTestSender()
  const loops = store.shards.map((shard) => createDeliveryLoop(shard.store, sender, { leaseMs: 2000 }))
  for (const loop of loops) loop.start()
  t.after(async () => {
    await Promise.all(loops.map((loop) => loop.stop()))
    await Promise.all(stores.map((each) => each.close()))
    await shards.drop()
  })

  const made = new Map<string, string>()
  let isOver = false
  const callers = Array.from({ length: CALLERS }, async (_, caller) => {
    for (let call = 0; !isOver; call++) {
      const key = `${caller}-${call}`
      made.set(key, await createOnce(call % 2 === 0 ? store : second, key))
      await sleep(10)
    }
  })

  const poolers = await Promise.all(
    Object.values(POOLERS).flatMap(({ needs, start }) => (needs.skip ? [] : [start(shards.databases, 5)])),
  )
  t.after(() => Promise.all(poolers.map((pooler) => pooler.close())))
  const urls = [shards.databases.map(({ url }) => url), ...poolers.map((pooler) => pooler.urls)].map((list) =>
    JSON.stringify(Object.fromEntries(NAMES.map((name, index) => [name, list[index]]))),
  )
  let moves = 0
  const move = (to: Name, killedAt: number | string): Promise<number | null> =>
    runMove(urls[moves++ % urls.length] ?? '', to, killedAt)

  let home: Name = 'b'
  let steps = (await move(home, 0)) ?? 0
  const nextOf = (number: number): Name =>
    NAMES[(NAMES.indexOf(home) + 1 + (number % 2)) % NAMES.length] ?? 'a'
  for (const [number, step] of FLIP.entries()) {
    for (const isContinued of [true, false]) {
      const to = nextOf(number)
      assert.equal(await move(to, step), null, step)
      if (isContinued) home = to
      await move(home, 0)
    }
  }
  for (let killed = 0; killed < KILLS; ) {
    const to = nextOf(killed)
    const made = await move(to, 1 + Math.floor(Math.random() * steps))
    if (made === null) {
      killed++
      // Two of three continue the move; the others take it back, or move back what had moved.
      if (killed % 3 !== 0) home = to
      await move(home, 0)
    } else [steps, home] = [made, to]
  }
  isOver = true
  await Promise.all(callers)
  t.diagnostic(`${made.size} creates, ${moves} moves over ${urls.length} kinds of connections`)

  for (const [key, id] of made) assert.equal(await createOnce(second, key), id, 'a replay')
  for (const [index, sql] of shards.sqlsByName.entries()) {
    const [row] = await sql`
      select count(*)::int as count, count(distinct name)::int as names from business_api.businesses
      where organization_id = ${ORGANIZATION}`
    const expected = NAMES[index] === home ? made.size : 0
    assert.deepEqual({ ...row }, { count: expected, names: expected }, NAMES[index])
    const [left] = await sql`
      select count(*)::int as count from business_api.events where organization_id = ${ORGANIZATION}`
    assert.equal(left?.count, 2 * expected)
  }
  const sql = shards.sqlsByName[NAMES.indexOf(home)]
  assert.ok(sql)
  for (let wait = 0; wait < 600; wait++) {
    const [open] = await sql`select count(*)::int as count from business_api.open_deliveries`
    if (open?.count === 0) break
    await sleep(100)
  }
  const sent = new Set(sender.eventIds)
  const events = await sql<{ id: string }[]>`
    select id from business_api.events where organization_id = ${ORGANIZATION}`
  assert.deepEqual(
    events.filter(({ id }) => !sent.has(id)),
    [],
  )
})
