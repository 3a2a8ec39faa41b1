import { after, before, describe, test } from 'node:test'
import type { ShardedStore } from '../../lib/postgres.ts'
import { describeStoreContract, type TestRunner } from '../contract/store-contract.ts'
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

/** The digests of keys are unique on each server: two servers cannot know of the same key of a host's own making. */
const OF_ONE_SERVER = 'apiKeys.insert() never lets two keys share a digest'

const runner: TestRunner = {
  describe,
  test: Object.assign(
    (name: string, body: () => Promise<void>) => (name === OF_ONE_SERVER ? test.skip : test)(name, body),
    { skip: test.skip },
  ),
}

describeStoreContract({
  name: 'three shards',
  runner,
  store: (organizationId) => withLoops(store, organizationId),
  secondStore: (organizationId) => withLoops(secondStore, organizationId),
  events: (organizationId) => readEventsOf(shards.sqlOf(organizationId), organizationId),
  letTimePass: (organizationId, ms) => letTimePass(shards.sqlOf(organizationId), organizationId, ms),
})
