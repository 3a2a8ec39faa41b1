import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { BusinessApiError, type ErrorCode, LIMIT_REACHED } from '../../lib/base/errors.ts'
import { createDeveloperSettings, type DeveloperSettingsOptions, type NewApiKey } from '../../lib/settings.ts'
import { describeOnEveryStore, newOrganization } from './_stores.ts'

const URL = 'https://hooks.example.com/'
const READER: NewApiKey = { name: 'Reader', scopes: ['clients:read'] }

async function assertRefused(call: Promise<unknown>, code: ErrorCode, message: RegExp): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof BusinessApiError)
    assert.deepEqual([error.code, error.record], [code, null])
    assert.match(error.message, message)
    return true
  })
}

describeOnEveryStore((open) => {
  function setUp(options: DeveloperSettingsOptions = {}) {
    const store = open()
    const settings = createDeveloperSettings(store, {
      allowPlaintextSecrets: true,
      allowPrivateNetworks: true,
      ...options,
    })
    return { store, ...settings, organizationId: newOrganization() }
  }

  describe('bounds per organization', () => {
    test('apiKeys.create() rejects more than 100 active keys', async () => {
      const { apiKeys, audit, organizationId } = setUp()
      const made = await Promise.all(
        Array.from({ length: 100 }, () => apiKeys.create(organizationId, READER)),
      )
      const call = apiKeys.create(organizationId, READER)
      const about =
        /^Cannot create an API key because the organization has reached its limit of 100 active keys: revoke one, or raise option 'maxApiKeys'$/
      await assertRefused(call, LIMIT_REACHED, about)
      assert.equal((await apiKeys.list(organizationId)).length, 100)
      await apiKeys.revoke(organizationId, made[0]?.id ?? '')
      await apiKeys.create(organizationId, READER)
      const { data } = await audit.list(organizationId, { limit: 200 })
      assert.equal(data.filter(({ action }) => action === 'api_key.created').length, 101)
    })

    test('endpoints.register() rejects more than 50 endpoints, and existing ones remain', async () => {
      const { endpoints, organizationId } = setUp()
      for (let count = 0; count < 50; count++) await endpoints.register(organizationId, { url: URL })
      const about =
        /^Cannot register a webhook endpoint because the organization has reached its limit of 50 endpoints: remove one, or raise option 'maxEndpoints'$/
      await assertRefused(endpoints.register(organizationId, { url: URL }), LIMIT_REACHED, about)
      const listed = await endpoints.list(organizationId)
      assert.equal(listed.length, 50)
      await endpoints.remove(organizationId, listed[0]?.id ?? '')
      await endpoints.register(organizationId, { url: URL })
    })

    test('maxApiKeys and maxEndpoints set the limits, and keys and endpoints above a lowered limit remain', async () => {
      const { store, organizationId, ...wide } = setUp({ maxApiKeys: 3, maxEndpoints: 2 })
      const keys = []
      for (let count = 0; count < 3; count++) keys.push(await wide.apiKeys.create(organizationId, READER))
      for (let count = 0; count < 2; count++) await wide.endpoints.register(organizationId, { url: URL })
      await assertRefused(
        wide.apiKeys.create(organizationId, READER),
        LIMIT_REACHED,
        / limit of 3 active keys/,
      )
      const narrow = createDeveloperSettings(store, {
        maxApiKeys: 1,
        maxEndpoints: 1,
        allowPlaintextSecrets: true,
        allowPrivateNetworks: true,
      })
      await assertRefused(
        narrow.apiKeys.create(organizationId, READER),
        LIMIT_REACHED,
        / limit of 1 active key/,
      )
      const register = narrow.endpoints.register(organizationId, { url: URL })
      await assertRefused(register, LIMIT_REACHED, / limit of 1 endpoint:/)
      for (const { key } of keys) {
        const request = { keyDigest: digestApiKey(key), scope: 'clients:read', rateLimits: null } as const
        assert.equal((await store.apiKeys.admit(request)).outcome, 'admitted')
      }
      assert.equal((await wide.endpoints.list(organizationId)).length, 2)
    })

    test('apiKeys.rotate() may exceed the limit during overlaps, up to twice as many', async () => {
      const { apiKeys, organizationId } = setUp({ maxApiKeys: 2 })
      const first = await apiKeys.create(organizationId, READER)
      let { id } = await apiKeys.create(organizationId, READER)
      for (let count = 0; count < 2; count++) id = (await apiKeys.rotate(organizationId, id)).id
      const about =
        /^Cannot rotate an API key because the organization has 4 active keys, twice its limit, with the overlaps of rotations: rotate without overlap, or revoke a key$/
      await assertRefused(apiKeys.rotate(organizationId, id), LIMIT_REACHED, about)
      assert.equal((await apiKeys.list(organizationId)).length, 4)
      await apiKeys.rotate(organizationId, id, { overlapMs: 0 })
      await apiKeys.revoke(organizationId, first.id)
      await apiKeys.rotate(organizationId, (await apiKeys.list(organizationId))[0]?.id ?? '')
    })

    test('many calls at once reach exactly the limit', async () => {
      const { store, organizationId, ...one } = setUp({ maxApiKeys: 7, maxEndpoints: 6 })
      const other = setUp({ maxApiKeys: 7, maxEndpoints: 6 })
      const settings = [one, store === other.store ? other : one]
      const calls = await Promise.allSettled(
        Array.from({ length: 50 }, (_, index) => {
          const { apiKeys, endpoints } = settings[index % 2] ?? one
          return index < 25
            ? apiKeys.create(organizationId, READER)
            : endpoints.register(organizationId, { url: URL })
        }),
      )
      assert.equal(calls.filter(({ status }) => status === 'fulfilled').length, 13)
      for (const call of calls) {
        if (call.status === 'rejected') assert.equal(call.reason.code, LIMIT_REACHED, call.reason)
      }
    })
  })

  for (const name of ['maxApiKeys', 'maxEndpoints'] as const) {
    test(`createDeveloperSettings() rejects an invalid limit: ${name}`, () => {
      for (const value of [0, -1, 1.5, Number.NaN, 1_000_001]) {
        assert.throws(() => setUp({ [name]: value }), {
          name: 'RangeError',
          message: new RegExp(`^Option '${name}' must be a whole number from 1 to 1000000`),
        })
      }
    })
  }
})
