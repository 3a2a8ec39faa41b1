import { after, before, describe, test } from 'node:test'
import type { ShardedStore } from '../../lib/postgres.ts'
import { describeStoreContract } from '../contract/store-contract.ts'
import { letTimePass, readEventsOf } from './_postgres.ts'
import { createTestShards, type TestShards, withLoops } from './_shards.ts'

// The contract on a store over three databases. The organizations of the contract are spread over all three.

let shards: TestShards
let store: ShardedStore
let secondStore: ShardedStore

before(async () => {
  shards = await createTestShards()
  store = shards.open()
  secondStore = shards.open()
})

after(async () => {
  await Promise.all([store.close(), secondStore.close()])
  await shards.drop()
})

describeStoreContract({
  name: 'three shards',
  runner: { describe, test },
  store: (organizationId) => withLoops(store, organizationId),
  secondStore: (organizationId) => withLoops(secondStore, organizationId),
  events: (organizationId) => readEventsOf(shards.sqlOf(organizationId), organizationId),
  letTimePass: (organizationId, ms) => letTimePass(shards.sqlOf(organizationId), organizationId, ms),
})
