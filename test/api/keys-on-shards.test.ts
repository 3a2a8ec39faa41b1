import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ApiKeyStore, digestApiKey, generateApiKey } from '../../lib/access/api-keys.ts'
import { createUnknownCallers, type UnknownCallers } from '../../lib/api/unknown-callers.ts'
import { STORE_UNAVAILABLE, storeUnavailable } from '../../lib/base/errors.ts'
import { createMemoryStore } from '../../lib/memory.ts'

const [OURS, THEIRS, INVENTED] = [generateApiKey('bapi'), generateApiKey('bapi'), generateApiKey('bapi')]

/** The callers of a store of two parts, of which the second does not answer before `release`. */
function createCallers() {
  let release = (_error?: Error): void => {}
  const held = new Promise<Map<string, string>>((resolve, reject) => {
    release = (error) => (error ? reject(error) : resolve(new Map([[digestApiKey(THEIRS), 'org_b']])))
  })
  const store = createMemoryStore()
  const withKeys = (identify: ApiKeyStore['identify']) => ({
    ...store,
    apiKeys: { ...store.apiKeys, identify },
  })
  const shards = [
    { name: 'a', store: withKeys(async () => new Map([[digestApiKey(OURS), 'org_a']])) },
    { name: 'b', store: withKeys(() => held) },
  ]
  return { callers: createUnknownCallers({ ...store, shards }, 3000), release }
}

/** Finds the organization of a key. */
const find = (callers: UnknownCallers, key: string): Promise<string | null> =>
  callers.find(digestApiKey(key), 'peer')

test('a lookup ends at the first part that has the key, and a silent part delays no key of another', async () => {
  const { callers, release } = createCallers()
  const theirs = find(callers, THEIRS)
  assert.equal(await find(callers, OURS), 'org_a')
  assert.equal(callers.organizationOf(digestApiKey(OURS)), 'org_a')
  release()
  assert.equal(await theirs, 'org_b')
  assert.equal(callers.organizationOf(digestApiKey(THEIRS)), 'org_b')
})

test('a key that no part has is found nowhere once every part has answered', async () => {
  const { callers, release } = createCallers()
  const invented = find(callers, INVENTED)
  release()
  assert.equal(await invented, null)
})

test('a key that no part has is not called unknown beside a part that does not answer', async () => {
  const { callers, release } = createCallers()
  const invented = find(callers, INVENTED)
  release(storeUnavailable('silent'))
  await assert.rejects(invented, { code: STORE_UNAVAILABLE })
})

test('a rejected key is forgotten, and found again', async () => {
  const { callers } = createCallers()
  await find(callers, OURS)
  callers.forget(digestApiKey(OURS))
  assert.equal(callers.organizationOf(digestApiKey(OURS)), undefined)
  assert.equal(await find(callers, OURS), 'org_a')
})
