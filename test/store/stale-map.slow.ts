import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Sql } from 'postgres'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createPostgresStore, createShardedStore, type ShardedStore } from '../../lib/postgres.ts'
import { describeStoreContract } from '../contract/store-contract.ts'
import { letTimePass, readEventsOf } from './_postgres.ts'
import { createTestShards, NAMES, organizationsElsewhere, type TestShards, withLoops } from './_shards.ts'

// The contract on a store over three databases whose organizations have all moved away from the shards of their slots, and which knows
// none of it: every call goes to the wrong shard first. Nothing is read or written there.

/** More organizations than the contract makes. */
const ORGANIZATIONS = Array.from({ length: 4000 }, (_, index) => `org_contract_${index}`)

let shards: TestShards
let store: ShardedStore
let homes: ReadonlyMap<string, Sql>
let stale: () => ShardedStore
let close: () => Promise<unknown>

before(async () => {
  shards = await createTestShards()
  await shards.begin()
  homes = await organizationsElsewhere(shards, ORGANIZATIONS)
  store = shards.open()
  const stores = await Promise.all(
    shards.databases.map(async ({ url }) => {
      const own = createPostgresStore(url)
      const place = await own.shardPlace()
      assert.ok(place)
      return { ...own, shardPlace: async () => ({ ...place, moved: {} }) }
    }),
  )
  const byName = Object.fromEntries(stores.map((each, index) => [NAMES[index] ?? '', each] as const))
  stale = () => createShardedStore({ shards: byName })
  close = () => Promise.all([store, ...stores].map((each) => each.close()))
})

after(async () => {
  await close()
  await shards.drop()
})

/** The store, with a map that is stale at every call. The loops know theirs. */
async function staleStore(organizationId: string): Promise<BusinessApiStore> {
  const whole = await withLoops(store, organizationId)
  const slices = Object.entries(whole).map(([name, slice]) => {
    if (typeof slice !== 'object' || ['shards', 'service', 'deliveries'].includes(name)) return [name, slice]
    const verbs = Object.keys(slice).map((verb) => {
      const call = (...args: unknown[]) => Reflect.get(Reflect.get(stale(), name), verb)(...args)
      return [verb, call]
    })
    return [name, Object.fromEntries(verbs)]
  })
  const { deliveries } = whole
  const ofOrganization = ['count', 'countRecoverable', 'list', 'get', 'listAttempts', 'recover', 'cancel']
  const calls = ofOrganization.map((verb) => [
    verb,
    (...args: unknown[]) => Reflect.get(stale().deliveries, verb)(...args),
  ])
  return { ...Object.fromEntries(slices), deliveries: { ...deliveries, ...Object.fromEntries(calls) } }
}

const sqlOf = (organizationId: string): Sql => homes.get(organizationId) as Sql

describeStoreContract({
  name: 'three shards and a stale map',
  runner: { describe, test },
  store: staleStore,
  secondStore: staleStore,
  events: (organizationId) => readEventsOf(sqlOf(organizationId), organizationId),
  letTimePass: (organizationId, ms) => letTimePass(sqlOf(organizationId), organizationId, ms),
})

test('no call has written a row at a wrong place', async () => {
  const own = new Map(NAMES.map((name, index) => [shards.sqlsByName[index] as Sql, name]))
  for (const sql of shards.sqlsByName) {
    const tables = await sql<{ name: string }[]>`
      select relname as name from pg_attribute join pg_class on pg_class.oid = attrelid
      where relnamespace = 'business_api'::regnamespace and relkind in ('r', 'p') and not relispartition
        and attname = 'organization_id' and relname <> 'shard_places'`
    for (const { name } of tables) {
      const rows = await sql<{ id: string }[]>`
        select distinct organization_id as id from ${sql(`business_api.${name}`)} where organization_id <> ''`
      const wrong = rows.filter(({ id }) => homes.get(id) !== sql)
      assert.deepEqual(wrong, [], `${name} on shard ${own.get(sql)}`)
    }
  }
})
