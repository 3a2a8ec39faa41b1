import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { digestApiKey, readApiKey } from '../../lib/access/api-keys.ts'
import {
  BusinessApiError,
  type ErrorCode,
  INVALID_INPUT,
  INVALID_STATE,
  NOT_FOUND,
} from '../../lib/base/errors.ts'
import type { ServiceOptions } from '../../lib/service.ts'
import { createDeveloperSettings, type NewApiKey } from '../../lib/settings.ts'
import { named } from '../_service.ts'
import { untyped } from './_refusals.ts'
import { describeOnEveryStore, newOrganization } from './_stores.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const READER: NewApiKey = { name: 'Reader', scopes: ['clients:read'], rateLimit: { perSecond: 1, burst: 7 } }

/** Asserts that a rotation is rejected with a code and a message that names the problem but no value. */
async function assertRefused(call: Promise<unknown>, code: ErrorCode, about: RegExp): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof BusinessApiError, inspect(error))
    assert.equal(error.code, code)
    assert.match(error.message, /^Cannot rotate an API key because /)
    assert.match(error.message, about)
    assert.doesNotMatch(inspect(error), /_live_|s3cret/)
    assert.doesNotMatch(error.message, /Invalid|Expected|received|undefined/)
    return true
  })
}

describeOnEveryStore((open) => {
  function setUp(names: ServiceOptions = {}) {
    const store = named(open(), names)
    const { apiKeys } = createDeveloperSettings(store)
    const isAdmitted = async (key: string) => {
      const request = { keyDigest: digestApiKey(key), scope: 'clients:read', rateLimits: null } as const
      return (await store.apiKeys.admit(request)).outcome === 'admitted'
    }
    return { store, apiKeys, isAdmitted, organizationId: newOrganization() }
  }

  describe('apiKeys.rotate()', () => {
    test('apiKeys.rotate() returns a new key once, and the previous one stays active for 24 hours', async () => {
      const { apiKeys, isAdmitted, organizationId } = setUp({ keyPrefix: 'acme' })
      const old = await apiKeys.create(organizationId, READER)
      const earliest = Date.now() + DAY_MS - 60_000
      const { key, previous, ...shown } = await apiKeys.rotate(organizationId, old.id)
      assert.ok(key.startsWith('acme_live_') && readApiKey(key) !== undefined && key !== old.key)
      assert.deepEqual(
        [shown.name, shown.scopes, shown.rateLimit, shown.expiresAt, shown.lastFour],
        [old.name, old.scopes, old.rateLimit, null, key.slice(-4)],
      )
      const endsAt = Date.parse(previous.expiresAt ?? '')
      assert.ok(endsAt > earliest && endsAt < earliest + 120_000)
      assert.deepEqual([previous.id, previous.successorId, previous.revokedAt], [old.id, shown.id, null])
      assert.deepEqual(await apiKeys.list(organizationId), [shown, previous])
      assert.deepEqual([await isAdmitted(old.key), await isAdmitted(key)], [true, true])
    })

    test('apiKeys.rotate() gives the new key the expiry of the previous one unless another is passed', async () => {
      const { apiKeys, organizationId } = setUp()
      const expiresAt = '2099-02-28T12:00:00.010Z'
      const rotate = async (given: Parameters<typeof apiKeys.rotate>[2]) => {
        const { id } = await apiKeys.create(organizationId, { ...READER, expiresAt })
        return (await apiKeys.rotate(organizationId, id, given)).expiresAt
      }
      assert.equal(await rotate({}), expiresAt)
      assert.equal(await rotate({ actor: undefined }), expiresAt)
      assert.equal(await rotate({ expiresAt: null }), null)
      assert.equal(await rotate({ expiresAt: '2098-01-01T01:00+01:00' }), '2098-01-01T00:00:00.000Z')
    })

    test('apiKeys.rotate() without an overlap immediately revokes the previous key', async () => {
      const { apiKeys, isAdmitted, organizationId } = setUp()
      const old = await apiKeys.create(organizationId, READER)
      const { key, previous } = await apiKeys.rotate(organizationId, old.id, { overlapMs: 0 })
      assert.ok(previous.revokedAt)
      assert.deepEqual([await isAdmitted(old.key), await isAdmitted(key)], [false, true])
    })

    test('apiKeys.rotate() rejects a key that is revoked, expired or already rotated, and creates no key', async () => {
      const { store, apiKeys, organizationId } = setUp()
      const [revoked, rotated, replaced] = [
        await apiKeys.create(organizationId, READER),
        await apiKeys.create(organizationId, READER),
        await apiKeys.create(organizationId, READER),
      ]
      // Created with yesterday's clock, before the expiry.
      const yesterday = createDeveloperSettings(store, { clock: () => Date.now() - DAY_MS })
      const expiresAt = new Date(Date.now() - DAY_MS / 2)
      const expired = await yesterday.apiKeys.create(organizationId, { ...READER, expiresAt })
      await apiKeys.revoke(organizationId, revoked.id)
      await apiKeys.rotate(organizationId, rotated.id)
      await apiKeys.rotate(organizationId, replaced.id, { overlapMs: 0 })
      const before = await apiKeys.list(organizationId)
      const refused: [id: string, about: RegExp][] = [
        [revoked.id, / because the key is revoked: create a new key$/],
        [rotated.id, / because the key has been rotated: rotate its successor key_\w{26}$/],
        [replaced.id, / because the key is revoked: create a new key$/],
        [expired.id, / because the key has expired: create a new key$/],
      ]
      for (const [id, about] of refused) {
        await assertRefused(apiKeys.rotate(organizationId, id), INVALID_STATE, about)
      }
      assert.deepEqual(await apiKeys.list(organizationId), before)
    })

    test('apiKeys.rotate() called twice at once creates one key', async () => {
      const { apiKeys, organizationId } = setUp()
      const { id } = await apiKeys.create(organizationId, READER)
      const calls = await Promise.allSettled([1, 2].map(() => apiKeys.rotate(organizationId, id)))
      const refused = calls.find(({ status }) => status === 'rejected')
      assert.ok(refused?.status === 'rejected')
      await assertRefused(
        Promise.reject(refused.reason),
        INVALID_STATE,
        / because the key has been rotated: rotate its successor key_\w{26}$/,
      )
      assert.equal((await apiKeys.list(organizationId)).length, 2)
    })

    test("apiKeys.rotate() throws the same not_found for an unknown id, another organization's id and an invalid id", async () => {
      const { apiKeys, organizationId } = setUp()
      const { id, key } = await apiKeys.create(newOrganization(), READER)
      for (const wrong of [id, 'key_unknown', '', 'nul \0', '\ud800', key]) {
        const about = / because the organization has no such record$/
        await assertRefused(apiKeys.rotate(organizationId, wrong), NOT_FOUND, about)
      }
    })

    test('apiKeys.rotate() names everything that is invalid in its input', async () => {
      const { apiKeys, organizationId } = setUp()
      const { id } = await apiKeys.create(organizationId, READER)
      const refused: [string, unknown[], RegExp][] = [
        [
          'overlapMs',
          [-1, 1.5, 30 * DAY_MS + 1, Number.NaN, '1', null],
          / because overlapMs must be a whole number of milliseconds from 0 to 2592000000$/,
        ],
        [
          'expiresAt',
          [new Date(), 's3cret', '2030-01-01', 7],
          / because expiresAt must be null, a Date, or ISO 8601/,
        ],
      ]
      for (const [name, values, about] of refused) {
        for (const value of values) {
          const call = apiKeys.rotate(organizationId, id, untyped({ [name]: value }))
          await assertRefused(call, INVALID_INPUT, about)
        }
      }
      for (const wrong of [null, 7, undefined]) {
        const call = apiKeys.rotate('', untyped(wrong))
        await assertRefused(
          call,
          INVALID_INPUT,
          / because organizationId must [^;]*; keyId must be (given|a string)$/,
        )
      }
      assert.equal((await apiKeys.list(organizationId)).length, 1)
    })
  })
})
