import { after, before, describe, test } from 'node:test'
import type { ShardedStore } from '../../lib/postgres.ts'
import { describeStoreContract } from '../contract/store-contract.ts'
import { POOLERS, type RunningPooler } from '../faults/_poolers.ts'
import { letTimePass, readEventsOf } from './_postgres.ts'
import { createTestShards, type TestShards, withLoops } from './_shards.ts'

// The contract on a store over three databases, each behind a pooler in transaction mode.

for (const [name, { needs, options, start }] of Object.entries(POOLERS)) {
  describe(`behind ${name}`, needs, () => {
    let shards: TestShards
    let pooler: RunningPooler
    let store: ShardedStore
    let secondStore: ShardedStore

    before(async () => {
      shards = await createTestShards()
      pooler = await start(shards.databases, 20)
      store = shards.open(options, pooler.urls)
      secondStore = shards.open(options, pooler.urls)
    })

    after(async () => {
      await Promise.all([store.close(), secondStore.close()])
      await pooler.close()
      await shards.drop()
    })

    describeStoreContract({
      name: `three shards behind ${name}`,
      runner: { describe, test },
      store: (organizationId) => withLoops(store, organizationId),
      secondStore: (organizationId) => withLoops(secondStore, organizationId),
      events: (organizationId) => readEventsOf(shards.sqlOf(organizationId), organizationId),
      letTimePass: (organizationId, ms) => letTimePass(shards.sqlOf(organizationId), organizationId, ms),
    })
  })
}
