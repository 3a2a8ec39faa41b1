import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { ALREADY_EXISTS, BusinessApiError, INVALID_INPUT, INVALID_STATE } from '../../lib/base/errors.ts'
import { createIds } from '../../lib/base/ids.ts'
import { createDeveloperSettings, type NewApiKey } from '../../lib/settings.ts'
import { untyped } from './_refusals.ts'
import { describeOnEveryStore, newOrganization } from './_stores.ts'

// Calls that are repeated with the id of the new record, for example because a form was submitted twice or a
// response was lost.

const ids = createIds()
const URL = 'https://hooks.example.com/t0ken'
const READER: NewApiKey = { name: 'Reader', scopes: ['clients:read'] }

/** Asserts that a call is rejected because its id was used before, with the record of that id but no secret. */
async function assertUsed(call: Promise<unknown>, action: string, record: object | null): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof BusinessApiError, inspect(error))
    assert.equal(error.code, ALREADY_EXISTS)
    assert.deepEqual(error.record, record)
    assert.ok(error.message.startsWith(`${action} because `), error.message)
    assert.match(error.message, /\bid was used before: .* once only/)
    assert.doesNotMatch(inspect([error, error.record]), /_live_[0-9A-Za-z]|whsec_|plain\.|digest|sealed/)
    assert.doesNotMatch(inspect(error), /t0ken/, 'a log of the error repeats no field of the record')
    assert.doesNotMatch(JSON.stringify(error), /t0ken/)
    return true
  })
}

describeOnEveryStore((open) => {
  function setUp() {
    const store = open()
    const settings = createDeveloperSettings(store, {
      allowPlaintextSecrets: true,
      allowPrivateNetworks: true,
    })
    const organizationId = newOrganization()
    const isAdmitted = async (key: string) => {
      const request = { keyDigest: digestApiKey(key), scope: 'clients:read', rateLimits: null } as const
      return (await store.apiKeys.admit(request)).outcome === 'admitted'
    }
    /** Returns the secrets that sign for an endpoint, current one first. */
    const secretsOf = async (endpointId: string) => {
      const target = await store.endpoints.getTarget(organizationId, endpointId)
      return target?.sealedSecrets.map((sealed) => sealed.replace('plain.', ''))
    }
    const entries = async () => (await settings.audit.list(organizationId, { limit: 200 })).data
    return { store, ...settings, organizationId, isAdmitted, secretsOf, entries }
  }

  describe('apiKeys.create() with an id', () => {
    test('creates the key once: a second call returns no key, and the first one stays active', async () => {
      const { apiKeys, organizationId, isAdmitted, entries } = setUp()
      const id = ids('key')
      const { key, ...shown } = await apiKeys.create(organizationId, { ...READER, id })
      assert.equal(shown.id, id)
      const before = await entries()
      for (const name of ['Reader', 'Another']) {
        const again = apiKeys.create(organizationId, { ...READER, name, id })
        await assertUsed(again, 'Cannot create an API key', shown)
      }
      assert.deepEqual(await apiKeys.list(organizationId), [shown])
      assert.deepEqual(await entries(), before)
      assert.equal(await isAdmitted(key), true)
    })

    test('twice at once creates one key that is admitted', async () => {
      const { apiKeys, organizationId, isAdmitted } = setUp()
      const id = ids('key')
      const calls = await Promise.allSettled(
        [1, 2, 3].map(() => apiKeys.create(organizationId, { ...READER, id })),
      )
      const made = calls.flatMap((call) => (call.status === 'fulfilled' ? [call.value] : []))
      assert.equal(made.length, 1)
      assert.equal(await isAdmitted(made[0]?.key ?? ''), true)
      for (const call of calls) if (call.status === 'rejected') assert.equal(call.reason.code, ALREADY_EXISTS)
    })

    test('is also rejected if the key was revoked since', async () => {
      const { apiKeys, organizationId } = setUp()
      const { id } = await apiKeys.create(organizationId, READER)
      const revoked = await apiKeys.revoke(organizationId, id)
      const again = apiKeys.create(organizationId, { ...READER, id })
      await assertUsed(again, 'Cannot create an API key', revoked)
    })
  })

  describe('apiKeys.rotate() with an id', () => {
    test('creates the successor once: a second call returns no key and ends no key', async () => {
      const { apiKeys, organizationId, isAdmitted, entries } = setUp()
      for (const overlapMs of [0, 60_000]) {
        const old = await apiKeys.create(organizationId, READER)
        const id = ids('key')
        const { key, previous: _, ...shown } = await apiKeys.rotate(organizationId, old.id, { id, overlapMs })
        assert.equal(shown.id, id)
        const before = [await apiKeys.list(organizationId), await entries()]
        for (const overlap of [overlapMs, 0]) {
          const again = apiKeys.rotate(organizationId, old.id, { id, overlapMs: overlap })
          await assertUsed(again, 'Cannot rotate an API key', shown)
        }
        assert.deepEqual([await apiKeys.list(organizationId), await entries()], before)
        assert.deepEqual([await isAdmitted(key), await isAdmitted(old.key)], [true, overlapMs > 0])
      }
    })

    test('rejects the id of another key, and rotates with a different id', async () => {
      const { apiKeys, organizationId, isAdmitted } = setUp()
      const [one, other] = [
        await apiKeys.create(organizationId, READER),
        await apiKeys.create(organizationId, READER),
      ]
      const { key: _, ...shown } = other
      const call = apiKeys.rotate(organizationId, one.id, { id: other.id, overlapMs: 0 })
      await assertUsed(call, 'Cannot rotate an API key', shown)
      assert.deepEqual([await isAdmitted(one.key), await isAdmitted(other.key)], [true, true])
      const rotated = await apiKeys.rotate(organizationId, one.id, { id: ids('key'), overlapMs: 0 })
      assert.equal(await isAdmitted(rotated.key), true)
      const again = apiKeys.rotate(organizationId, one.id, { id: ids('key') })
      await assert.rejects(again, { code: INVALID_STATE })
    })
  })

  describe('endpoints.register() with an id', () => {
    test('creates the endpoint once: a second call returns no secret, and the first one signs', async () => {
      const { endpoints, organizationId, secretsOf, entries } = setUp()
      const id = ids('we')
      const { secret, ...shown } = await endpoints.register(organizationId, { url: URL, id })
      assert.equal(shown.id, id)
      const before = await entries()
      const again = endpoints.register(organizationId, { url: `${URL}/other`, id })
      await assertUsed(again, 'Cannot register a webhook endpoint', shown)
      assert.deepEqual(await endpoints.list(organizationId), [shown])
      assert.deepEqual([await secretsOf(id), await entries()], [[secret], before])
    })

    test('returns the current state of the endpoint, or null if it was removed', async () => {
      const { endpoints, organizationId } = setUp()
      const { id } = await endpoints.register(organizationId, { url: URL })
      const paused = await endpoints.pause(organizationId, id)
      const again = () => endpoints.register(organizationId, { url: URL, id })
      await assertUsed(again(), 'Cannot register a webhook endpoint', paused)
      await endpoints.remove(organizationId, id)
      await assertUsed(again(), 'Cannot register a webhook endpoint', null)
      assert.deepEqual(await endpoints.list(organizationId), [])
    })
  })

  describe('endpoints.rotateSecret() with an id', () => {
    test('rotates once: a second call returns no secret and drops none', async () => {
      const { endpoints, organizationId, secretsOf, entries } = setUp()
      const first = await endpoints.register(organizationId, { url: URL })
      const id = ids('chg')
      const { secret, ...shown } = await endpoints.rotateSecret(organizationId, first.id, { id })
      const before = await entries()
      for (const overlapMs of [0, 60_000]) {
        const again = endpoints.rotateSecret(organizationId, first.id, { id, overlapMs })
        await assertUsed(again, 'Cannot rotate the secret of a webhook endpoint', shown)
      }
      assert.deepEqual([await secretsOf(first.id), await entries()], [[secret, first.secret], before])
    })

    test('remembers an id after other rotations, but for one endpoint only', async () => {
      const { endpoints, organizationId, secretsOf } = setUp()
      const [one, other] = [
        await endpoints.register(organizationId, { url: URL }),
        await endpoints.register(organizationId, { url: URL }),
      ]
      const id = ids('chg')
      await endpoints.rotateSecret(organizationId, one.id, { id })
      await endpoints.rotateSecret(organizationId, other.id, { id })
      const { secret, ...shown } = await endpoints.rotateSecret(organizationId, one.id, { overlapMs: 0 })
      const again = endpoints.rotateSecret(organizationId, one.id, { id })
      await assertUsed(again, 'Cannot rotate the secret of a webhook endpoint', shown)
      assert.deepEqual(await secretsOf(one.id), [secret])
    })

    test('three times at once rotates once, and the returned secret signs', async () => {
      const { endpoints, organizationId, secretsOf } = setUp()
      const first = await endpoints.register(organizationId, { url: URL })
      const id = ids('chg')
      const calls = await Promise.allSettled(
        [1, 2, 3].map(() => endpoints.rotateSecret(organizationId, first.id, { id })),
      )
      const made = calls.flatMap((call) => (call.status === 'fulfilled' ? [call.value.secret] : []))
      assert.equal(made.length, 1)
      assert.deepEqual(await secretsOf(first.id), [...made, first.secret])
    })
  })

  test('an id of another kind is rejected, and nothing is created', async () => {
    const { apiKeys, endpoints, organizationId, entries } = setUp()
    const key = await apiKeys.create(organizationId, READER)
    const endpoint = await endpoints.register(organizationId, { url: URL })
    const before = await entries()
    const calls: [kind: string, call: (id: string) => Promise<unknown>][] = [
      ['key', (id) => apiKeys.create(organizationId, { ...READER, id })],
      ['key', (id) => apiKeys.rotate(organizationId, key.id, { id })],
      ['we', (id) => endpoints.register(organizationId, { url: URL, id })],
      ['chg', (id) => endpoints.rotateSecret(organizationId, endpoint.id, { id })],
    ]
    const ulid = ids('key').slice('key_'.length)
    const wrong = [ulid, `biz_${ulid}`, `_${ulid}`, '', 7, null, `${ids('aud')}`, { id: ulid }]
    for (const [kind, call] of calls) {
      const ofKind = [ulid.slice(1), `8${ulid.slice(1)}`, `${ulid}0`, ulid.toLowerCase(), `${ulid}\n`].map(
        (text) => `${kind}_${text}`,
      )
      for (const id of [...wrong, ...ofKind]) {
        await assert.rejects(call(untyped(id)), {
          code: INVALID_INPUT,
          message: new RegExp(` because id must be ${kind}_ and a ULID, 26 digits and capital letters$`),
        })
      }
    }
    assert.deepEqual(await entries(), before)
  })
})
