import { after, before, describe, test } from 'node:test'
import type { ShardedStore } from '../../lib/postgres.ts'
import { describeStoreContract } from '../contract/store-contract.ts'
import { type PgBouncer, startPgBouncer, WITH_PGBOUNCER } from '../faults/_pgbouncer.ts'
import { letTimePass, readEventsOf } from './_postgres.ts'
import { createTestShards, type TestShards, withLoops } from './_shards.ts'

// The contract on a store over three databases, each behind PgBouncer in transaction mode.

const WITHOUT_SESSIONS = { sessions: false, prepare: false }

let shards: TestShards
let poolers: readonly PgBouncer[]
let store: ShardedStore
let secondStore: ShardedStore

describe('behind PgBouncer', WITH_PGBOUNCER, () => {
  before(async () => {
    shards = await createTestShards()
    poolers = await Promise.all(shards.databases.map((database) => startPgBouncer(database, 20)))
    const urls = poolers.map(({ url }) => url)
    store = shards.open(WITHOUT_SESSIONS, urls)
    secondStore = shards.open(WITHOUT_SESSIONS, urls)
  })

  after(async () => {
    await Promise.all([store.close(), secondStore.close()])
    await Promise.all(poolers.map((pooler) => pooler.close()))
    await shards.drop()
  })

  describeStoreContract({
    name: 'three shards behind PgBouncer',
    runner: { describe, test },
    store: (organizationId) => withLoops(store, organizationId),
    secondStore: (organizationId) => withLoops(secondStore, organizationId),
    events: (organizationId) => readEventsOf(shards.sqlOf(organizationId), organizationId),
    letTimePass: (organizationId, ms) => letTimePass(shards.sqlOf(organizationId), organizationId, ms),
  })
})
