import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings, type DeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { type LossyProxy, startLossyProxy } from './_lost-answers.ts'

// The store sends a statement again after a lost answer. The second attempt finds the work done: the call must return the secret,
// because no later call can, and must not take the work for another call's.

const ORG = 'org_lossy'
const READER = { name: 'Reader', scopes: ['clients:read'] } as const
const URL = 'https://hooks.example.com/'

describe('A response lost after the commit of the statement', () => {
  let database: TestDatabase
  let proxy: LossyProxy
  let store: PostgresStore
  let settings: DeveloperSettings
  let losses = 0

  before(async () => {
    database = await createTestDatabase()
    proxy = await startLossyProxy(database.url)
    store = createPostgresStore(proxy.url, { maxConnections: 1 })
    // The organization is at the bound when the answer is lost: the first attempt's work must not make the second attempt fail.
    settings = createDeveloperSettings(store, {
      allowPlaintextSecrets: true,
      allowPrivateNetworks: true,
      maxApiKeys: 1,
      maxEndpoints: 1,
    })
  })
  after(async () => {
    await store.close()
    await proxy.close()
    await database.drop()
  })
  afterEach(() => {
    losses++
    assert.equal(proxy.lost, losses, 'the answer was not lost')
  })

  const isAdmitted = async (key: string) => {
    const request = { keyDigest: digestApiKey(key), scope: 'clients:read', rateLimits: null } as const
    return (await store.apiKeys.admit(request)).outcome === 'admitted'
  }
  const secretsOf = async (organizationId: string, id: string) =>
    (await store.endpoints.getTarget(organizationId, id))?.sealedSecrets.map((text) => text.slice(6))
  const countEntries = async (organizationId: string, action: string) => {
    const { data } = await settings.audit.list(organizationId)
    return data.filter((entry) => entry.action === action).length
  }

  test('apiKeys.create() gives the key, which is admitted', async () => {
    proxy.loseAnswerTo('lost create')
    const { key, ...shown } = await settings.apiKeys.create(ORG, { ...READER, actor: 'lost create' })
    assert.equal(await isAdmitted(key), true)
    assert.deepEqual(await settings.apiKeys.list(ORG), [shown])
    assert.equal(await countEntries(ORG, 'api_key.created'), 1)
  })

  test('apiKeys.rotate() gives the successor, which is admitted', async () => {
    const organizationId = `${ORG}_rotate`
    const old = await settings.apiKeys.create(organizationId, READER)
    proxy.loseAnswerTo('lost rotate')
    const options = { overlapMs: 0, actor: 'lost rotate' }
    const { key, previous } = await settings.apiKeys.rotate(organizationId, old.id, options)
    assert.deepEqual([await isAdmitted(key), await isAdmitted(old.key)], [true, false])
    assert.equal((await settings.apiKeys.list(organizationId)).length, 2)
    assert.ok(previous.revokedAt)
    assert.equal(await countEntries(organizationId, 'api_key.rotated'), 1)
  })

  test('endpoints.register() gives the secret that signs', async () => {
    proxy.loseAnswerTo('lost register')
    const { secret, ...shown } = await settings.endpoints.register(ORG, { url: URL, actor: 'lost register' })
    assert.deepEqual(await settings.endpoints.list(ORG), [shown])
    assert.deepEqual(await secretsOf(ORG, shown.id), [secret])
    assert.equal(await countEntries(ORG, 'endpoint.registered'), 1)
  })

  test('endpoints.rotateSecret() gives the signing secret, and the previous secret for the overlap', async () => {
    const organizationId = `${ORG}_secret`
    const first = await settings.endpoints.register(organizationId, { url: URL })
    proxy.loseAnswerTo('lost secret')
    const { secret } = await settings.endpoints.rotateSecret(organizationId, first.id, {
      actor: 'lost secret',
    })
    assert.deepEqual(await secretsOf(organizationId, first.id), [secret, first.secret])
    assert.equal(await countEntries(organizationId, 'endpoint.secret_rotated'), 1)
  })
})
