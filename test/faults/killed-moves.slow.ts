// An organization moves from shard to shard under load, in processes that are killed at a random step and followed by others that go on
// with the move, or take it back. No create is lost or made twice, no event is left unsent, and nothing stays where the organization was.

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

const KILLS = 20
const CALLERS = 6
const ORGANIZATION = organizationOn('a', 1)

/** Runs a move in a process of its own. @returns the number of its steps; null if it was killed, or failed */
function runMove(urls: string, to: string, killedAt: number): Promise<number | null> {
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

test(`moves under load, killed at ${KILLS} random steps, lose nothing and make nothing twice`, async (t) => {
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

  const urls = JSON.stringify(
    Object.fromEntries(NAMES.map((name, index) => [name, shards.databases[index]?.url])),
  )
  let steps = (await runMove(urls, 'b', 0)) ?? 0
  let home: (typeof NAMES)[number] = 'b'
  for (let killed = 0; killed < KILLS; ) {
    const to: (typeof NAMES)[number] = NAMES[(NAMES.indexOf(home) + 1 + (killed % 2)) % NAMES.length] ?? 'a'
    const made = await runMove(urls, to, 1 + Math.floor(Math.random() * steps))
    if (made === null) {
      killed++
      // Two of three go on with the move; the others take it back, or move back what had moved.
      const next: (typeof NAMES)[number] = killed % 3 === 0 ? home : to
      await runMove(urls, next, 0)
      home = next
    } else [steps, home] = [made, to]
  }
  isOver = true
  await Promise.all(callers)
  t.diagnostic(`${made.size} creates`)

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
