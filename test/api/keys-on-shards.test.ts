import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ApiKeyStore, digestApiKey, generateApiKey } from '../../lib/access/api-keys.ts'
import { type Authentication, createAuthentication } from '../../lib/api/authenticate.ts'
import { STORE_UNAVAILABLE, storeUnavailable } from '../../lib/base/errors.ts'
import { createMemoryStore } from '../../lib/memory.ts'

const [OURS, THEIRS, INVENTED] = [generateApiKey('bapi'), generateApiKey('bapi'), generateApiKey('bapi')]

/** Authenticates by a store of two parts, of which the second does not answer before `release`. */
function authenticateByParts() {
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
  return { authentication: createAuthentication({ ...store, shards }), release }
}

/** Finds the organization of a key that the process does not know. */
async function find(authentication: Authentication, key: string): Promise<string> {
  const credentials = authentication.read(`Bearer ${key}`)
  assert.ok(credentials.kind === 'unknown', credentials.kind)
  return (await authentication.find(credentials, () => 'peer')).organizationHint
}

test('a look-up ends at the first part that has the key, and a silent part delays no key of another', async () => {
  const { authentication, release } = authenticateByParts()
  const theirs = find(authentication, THEIRS)
  assert.equal(await find(authentication, OURS), 'org_a')
  assert.equal(authentication.read(`Bearer ${OURS}`).kind, 'known')
  release()
  assert.equal(await theirs, 'org_b')
  assert.equal(authentication.read(`Bearer ${THEIRS}`).kind, 'known')
})

test('a key that no part has is refused once every part has answered', async () => {
  const { authentication, release } = authenticateByParts()
  const invented = find(authentication, INVENTED)
  release()
  await assert.rejects(invented, { status: 401 })
})

test('a key that no part has is not refused beside a part that does not answer', async () => {
  const { authentication, release } = authenticateByParts()
  const invented = find(authentication, INVENTED)
  release(storeUnavailable('silent'))
  await assert.rejects(invented, { code: STORE_UNAVAILABLE })
})

test('a refused key is forgotten in every part', async () => {
  const { authentication } = authenticateByParts()
  await find(authentication, OURS)
  authentication.refuse(digestApiKey(OURS))
  assert.equal(await find(authentication, OURS), 'org_a')
})
