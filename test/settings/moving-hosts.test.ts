import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { ALREADY_EXISTS, INVALID_INPUT, LIMIT_REACHED } from '../../lib/base/errors.ts'
import { createIds } from '../../lib/base/ids.ts'
import { type BusinessApiStore, createBusinessApi, defineService } from '../../lib/index.ts'
import {
  createDeveloperSettings,
  type DeveloperSettingsOptions,
  type ImportedApiKey,
} from '../../lib/settings.ts'
import { named } from '../_service.ts'
import { createSetUp as createEndpointSetUp, readSigningSecrets, URL } from './_endpoints.ts'
import { assertRefused, untyped } from './_refusals.ts'
import { describeOnEveryStore, newOrganization } from './_stores.ts'

// A host that already had an API and webhooks. Its customers keep their keys and signing secrets.

const importedKeys = { pattern: /^acme_[0-9a-f]{40}$/g }
const newId = createIds()

/** A key of the earlier API. */
const newOldKey = (): string => `acme_${randomBytes(20).toString('hex')}`

/** What the host has stored about a key. */
function recordOf(key: string, changes: Partial<ImportedApiKey> = {}): ImportedApiKey {
  const digest = createHash('sha256').update(key).digest('hex')
  const scopes = ['clients:read', 'leads:read'] as const
  return { name: 'Warehouse', scopes, digest, prefix: 'acme_', lastFour: key.slice(-4), ...changes }
}

describeOnEveryStore((open) => {
  function setUp(options: DeveloperSettingsOptions = {}) {
    const store = named(open(), { importedKeys })
    const settings = createDeveloperSettings(store, options)
    return { store, settings, organizationId: newOrganization() }
  }

  async function statusOf(
    store: BusinessApiStore,
    key: string,
    pattern = importedKeys.pattern,
  ): Promise<number> {
    const api = createBusinessApi(named(store, { importedKeys: { pattern } }), { logger: false })
    return statusBy(api, key)
  }

  async function statusBy(api: ReturnType<typeof createBusinessApi>, key: string): Promise<number> {
    const headers = { Authorization: `Bearer ${key}` }
    return (await api(new Request('http://x/api/v1/clients', { headers }))).status
  }

  describe('apiKeys.import()', () => {
    test('a key of the earlier API works unchanged and can be listed, renamed, rotated and revoked like any other', async () => {
      const { store, settings, organizationId } = setUp()
      const key = newOldKey()
      assert.equal(await statusOf(store, key), 401)
      const expiresAt = '2999-12-31T00:00:00.000Z'
      const rateLimit = { perSecond: 5, burst: 50 }
      const given = recordOf(key, { expiresAt, rateLimit, actor: 'user_7' })
      const imported = await settings.apiKeys.import(organizationId, given)
      const { digest, actor, ...shown } = given
      assert.deepEqual(imported, {
        ...shown,
        id: imported.id,
        createdAt: imported.createdAt,
        revokedAt: null,
        successorId: null,
        lastUsedAt: null,
      })
      const api = createBusinessApi(store, { logger: false })
      // The pattern has the flag g, which would remember the position of the last match.
      for (let turn = 0; turn < 4; turn++) assert.equal(await statusBy(api, key), 200)
      assert.equal(await statusOf(store, `${key.slice(0, -1)}-`), 401)
      const { name, id } = await settings.apiKeys.update(organizationId, imported.id, { name: 'Depot' })
      assert.equal(name, 'Depot')
      const { data } = await settings.audit.list(organizationId, { action: 'api_key.imported' })
      const details = { name: 'Warehouse', scopes: given.scopes, expiresAt, rateLimit }
      assert.deepEqual(
        data.map((entry) => [entry.subjectId, entry.actor, entry.details]),
        [[id, actor, details]],
      )
      assert.doesNotMatch(
        inspect([await settings.apiKeys.list(organizationId), data], { depth: 9 }),
        RegExp(digest),
      )

      const rotated = await settings.apiKeys.rotate(organizationId, id, { overlapMs: 60_000 })
      assert.deepEqual([rotated.scopes, rotated.name, rotated.rateLimit], [given.scopes, 'Depot', rateLimit])
      assert.deepEqual([await statusBy(api, key), await statusBy(api, rotated.key)], [200, 200])
      await settings.apiKeys.revoke(organizationId, id)
      assert.deepEqual([await statusBy(api, key), await statusBy(api, rotated.key)], [401, 200])
    })

    test('without the pattern the call says that the key would get 401, which it does', async () => {
      const { store, settings, organizationId } = setUp()
      const key = newOldKey()
      const without = createDeveloperSettings(named(store, {}))
      await assert.rejects(without.apiKeys.import(organizationId, recordOf(key)), {
        name: 'TypeError',
        message:
          /^Cannot import an API key because the service has no importedKeys, and the API would answer 401: give/,
      })
      assert.deepEqual(await settings.apiKeys.list(organizationId), [])
      await settings.apiKeys.import(organizationId, recordOf(key))
      assert.equal(await statusBy(createBusinessApi(named(store, {}), { logger: false }), key), 401)
      assert.equal(await statusOf(store, key, /^other_/), 401)
      assert.equal(await statusOf(store, key), 200)
    })

    test("a digest that exists in any organization is the same error, which doesn't say where", async () => {
      const { settings, organizationId } = setUp()
      const other = newOrganization()
      const [ours, theirs, ended] = [newOldKey(), newOldKey(), newOldKey()]
      const { id } = await settings.apiKeys.import(organizationId, recordOf(ours))
      await settings.apiKeys.import(other, recordOf(theirs))
      const revoked = await settings.apiKeys.import(other, recordOf(ended))
      await settings.apiKeys.revoke(other, revoked.id)
      const before = [await settings.apiKeys.list(organizationId), await settings.audit.list(organizationId)]
      const again: readonly ImportedApiKey[] = [
        recordOf(ours),
        recordOf(ours, { digest: recordOf(ours).digest.toUpperCase() }),
        recordOf(theirs),
        recordOf(ended),
        recordOf(newOldKey(), { id }),
      ]
      for (const given of again) {
        await assert.rejects(settings.apiKeys.import(organizationId, given), {
          code: ALREADY_EXISTS,
          message: 'Cannot import an API key because a key with its id or digest already exists',
          record: null,
        })
      }
      assert.deepEqual(
        [await settings.apiKeys.list(organizationId), await settings.audit.list(organizationId)],
        before,
      )
    })

    test('the same call with an id imports once, and only one of two organizations can import a key', async () => {
      const { store, settings, organizationId } = setUp()
      const key = newOldKey()
      const given = recordOf(key, { id: newId('key') })
      const first = await settings.apiKeys.import(organizationId, given)
      assert.deepEqual(await settings.apiKeys.import(organizationId, given), first)
      assert.equal((await settings.audit.list(organizationId)).data.length, 1)

      const raced = recordOf(newOldKey())
      const owners = [organizationId, newOrganization(), newOrganization()]
      const results = await Promise.allSettled(owners.map((owner) => settings.apiKeys.import(owner, raced)))
      assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1)
      assert.equal(await statusOf(store, key), 200)
    })

    test("a key created here can't be imported by its digest", async () => {
      const { store, settings, organizationId } = setUp()
      const { key } = await settings.apiKeys.create(organizationId, { name: 'Web', scopes: ['clients:read'] })
      await assert.rejects(settings.apiKeys.import(newOrganization(), recordOf(key)), {
        code: ALREADY_EXISTS,
      })
      const api = createBusinessApi(store, { logger: false })
      assert.equal(await statusBy(api, key), 200)
    })

    test('other kinds of digests, a plain key and an expiry in the past are rejected by name', async () => {
      const { settings, organizationId } = setUp()
      const key = newOldKey()
      const digest = /digest must be the SHA-256 digest of the whole key, 64 hexadecimal digits/
      const hashed = (kind: string, form: 'hex' | 'base64') => createHash(kind).update(key).digest(form)
      const cases: [changes: object, about: RegExp][] = [
        [{ digest: hashed('sha512', 'hex') }, digest],
        [{ digest: hashed('sha1', 'hex') }, digest],
        [{ digest: hashed('sha256', 'base64') }, digest],
        [{ digest: `sha256:${hashed('sha256', 'hex')}` }, digest],
        [{ digest: ` ${hashed('sha256', 'hex')}` }, digest],
        [{ digest: `${hashed('sha256', 'hex')}\n` }, digest],
        [{ digest: '$2b$12$KIXQ4S5q2pJbN1n5Yw1p7e2b5bq1cVdB8a3uQm1z9y7xw6v5u4t3s' }, digest],
        [{ digest: key }, digest],
        [{ digest: undefined }, /digest must/],
        [{ digest: Buffer.from(hashed('sha256', 'hex'), 'hex') }, digest],
        [{ prefix: key, lastFour: '7f3a' }, /prefix must be at most 24 visible ASCII characters/],
        [{ prefix: 'acme ' }, /prefix must be at most 24/],
        [{ lastFour: key.slice(-5) }, /lastFour must be four visible ASCII characters/],
        [{ lastFour: '' }, /lastFour must be four/],
        [{ expiresAt: '2020-01-01T00:00:00Z' }, /expiresAt must be .* in the future/],
        [{ expiresAt: undefined }, /expiresAt must/],
        [{ scopes: ['everything'] }, /scopes must be/],
        [{ scopes: [] }, /scopes must be/],
        [{ name: '' }, /name must be/],
        [{ key }, /key is unknown/],
        [{ hash: hashed('sha256', 'hex') }, /hash is unknown/],
      ]
      for (const [changes, about] of cases) {
        const given = untyped<ImportedApiKey>({ ...recordOf(key), ...changes })
        const call = settings.apiKeys.import(organizationId, given)
        await assertRefused(call, INVALID_INPUT, 'Cannot import an API key', about)
        await call.catch((error) => assert.doesNotMatch(inspect(error), RegExp(key)))
      }
      assert.deepEqual(await settings.apiKeys.list(organizationId), [])
    })

    test('an imported key counts toward maxApiKeys', async () => {
      const { settings, organizationId } = setUp({ maxApiKeys: 1 })
      await settings.apiKeys.import(organizationId, recordOf(newOldKey()))
      const call = settings.apiKeys.import(organizationId, recordOf(newOldKey()))
      await assertRefused(
        call,
        LIMIT_REACHED,
        'Cannot import an API key',
        /has reached its limit of 1 active key:/,
      )
    })

    test("importedKeys is checked when it's defined", () => {
      const wrong: [option: unknown, message: RegExp][] = [
        [{ pattern: '^acme_' }, /'importedKeys.pattern' must be a regular expression/],
        [{}, /'importedKeys.pattern' must be/],
        [{ pattern: /x/, patern: /x/ }, /'importedKeys.patern' does not exist: did you mean 'pattern'/],
        [/^acme_/, /'importedKeys' must be a plain object/],
      ]
      for (const [option, message] of wrong) {
        const options = untyped<{ importedKeys: typeof importedKeys }>({ importedKeys: option })
        assert.throws(() => defineService(options), { name: 'TypeError', message })
      }
    })
  })

  describe('endpoints.register() with a signing secret', () => {
    const setUpEndpoints = createEndpointSetUp(open)

    test('accepts the secret unchanged, with 24 bytes in base64 after whsec_ or as they are', async () => {
      const { store, settings } = setUpEndpoints()
      for (const secret of [
        `whsec_${randomBytes(24).toString('base64')}`,
        `whsec_${randomBytes(32).toString('base64')}`,
        `whsec_${randomBytes(64).toString('base64')}`,
        `whsec_${'q1W2e3R4'.repeat(4)}`,
        randomBytes(24).toString('hex'),
        '!'.repeat(24),
        `whsec_${'-_'.repeat(20)}`,
        'x'.repeat(256),
      ]) {
        const organizationId = newOrganization()
        const given = { url: URL, secret, actor: 'user_7' }
        const registered = await settings.endpoints.register(organizationId, given)
        assert.equal(registered.secret, secret)
        assert.deepEqual(await readSigningSecrets(store, organizationId), [secret])
        const { data } = await settings.audit.list(organizationId)
        assert.deepEqual(
          data.map(({ actor, details }) => [actor, details]),
          [['user_7', { types: null, hasGivenSecret: true }]],
        )
        const all = [data, await settings.endpoints.list(organizationId)]
        assert.ok(!inspect(all, { depth: 9 }).includes(secret))
      }
    })

    test('rejects a secret that is short, quoted or contains white space, without showing it', async () => {
      const { settings, organizationId } = setUpEndpoints()
      const long = 's3cret'.repeat(8)
      for (const secret of [
        '',
        's3cret',
        's3cret'.repeat(4).slice(1),
        `whsec_${randomBytes(23).toString('base64')}`,
        `whsec_${randomBytes(16).toString('base64')}`,
        `whsec_${'x'.repeat(23)}`,
        ` ${long}`,
        `${long}\n`,
        `${long} ${long}`,
        `"${long}"`,
        `'${long}'`,
        `\`${long}`,
        `${long}\0`,
        `${long}é`,
        '🏺'.repeat(30),
        'x'.repeat(257),
        null,
        Buffer.from(long),
        [long],
      ]) {
        const call = settings.endpoints.register(organizationId, { url: URL, secret: untyped(secret) })
        const about =
          /secret must be at least 24 bytes, in base64 after whsec_ or as visible ASCII characters/
        await assertRefused(call, INVALID_INPUT, 'Cannot register a webhook endpoint', about)
      }
      assert.deepEqual(await settings.endpoints.list(organizationId), [])
    })

    test('Standard Webhooks accepts a secret of 24 to 64 bytes in base64, and no other', async () => {
      const { settings, organizationId } = setUpEndpoints()
      const register = (secret: string) =>
        settings.endpoints.register(organizationId, { url: URL, secret, standardWebhooks: true })
      for (const size of [24, 33, 64]) {
        const { standardWebhooks } = await register(`whsec_${randomBytes(size).toString('base64')}`)
        assert.equal(standardWebhooks, true)
      }
      for (const secret of [
        's3cret'.repeat(8),
        `whsec_${randomBytes(65).toString('base64')}`,
        `whsec_${'-_'.repeat(20)}`,
      ]) {
        const about =
          /because Standard Webhooks cannot decode the secret: it must be whsec_ and 24 to 64 bytes in base64$/
        await assertRefused(register(secret), INVALID_INPUT, 'Cannot register a webhook endpoint', about)
      }
    })

    test('a misspelled name is an error, not an endpoint with another secret', async () => {
      const { settings, organizationId } = setUpEndpoints()
      const given = untyped<{ url: string }>({ url: URL, signingSecret: 'x'.repeat(24) })
      const call = settings.endpoints.register(organizationId, given)
      await assertRefused(
        call,
        INVALID_INPUT,
        'Cannot register a webhook endpoint',
        /signingSecret is unknown/,
      )
    })
  })
})
