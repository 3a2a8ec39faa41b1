import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { BusinessApiError, INVALID_INPUT } from '../../lib/base/errors.ts'
import type { Acting } from '../../lib/settings.ts'
import { createSetUp, entriesOf, type Given, URL } from './_audit.ts'
import { untyped } from './_refusals.ts'
import { claim, describeOnEveryStore, newOrganization, publish, record } from './_stores.ts'

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  describe('actor', () => {
    /** Every call that accepts an actor. */
    function callsOf({ settings, organizationId, endpointId, keyId }: Given) {
      const { apiKeys, endpoints, deliveries, rateLimits } = settings
      const key = { name: 'Shop', scopes: ['clients:read'] } as const
      return [
        (acting: Acting) => apiKeys.create(organizationId, { ...key, ...acting }),
        (acting: Acting) => apiKeys.update(organizationId, keyId, { name: 'x', ...acting }),
        (acting: Acting) => apiKeys.revoke(organizationId, keyId, acting),
        (acting: Acting) => apiKeys.rotate(organizationId, keyId, acting),
        (acting: Acting) => rateLimits.set(organizationId, null, acting),
        (acting: Acting) => endpoints.register(organizationId, { url: URL, ...acting }),
        (acting: Acting) => endpoints.update(organizationId, endpointId, { description: 'x', ...acting }),
        (acting: Acting) => endpoints.pause(organizationId, endpointId, acting),
        (acting: Acting) => endpoints.resume(organizationId, endpointId, acting),
        (acting: Acting) => endpoints.disable(organizationId, endpointId, acting),
        (acting: Acting) => endpoints.enable(organizationId, endpointId, acting),
        (acting: Acting) => endpoints.rotateSecret(organizationId, endpointId, acting),
        (acting: Acting) => endpoints.sendTest(organizationId, endpointId, acting),
        (acting: Acting) => endpoints.remove(organizationId, endpointId, acting),
        (acting: Acting) => deliveries.redeliver(organizationId, 'dlv_1', acting),
        (acting: Acting) => deliveries.recover(organizationId, acting),
        (acting: Acting) => deliveries.cancel(organizationId, 'dlv_1', acting),
      ]
    }

    test('is rejected unless it has 1 to 200 characters, and nothing is done', async () => {
      const given = await setUp()
      const { settings, organizationId } = given
      const before = [await entriesOf(given), await settings.endpoints.list(organizationId)]
      for (const call of callsOf(given)) {
        for (const actor of ['', 's3cret'.repeat(40), 'nul \0', '\ud800', 7, {}]) {
          await assert.rejects(call(untyped({ actor })), (error: unknown) => {
            assert.ok(error instanceof BusinessApiError, inspect(error))
            assert.equal(error.code, INVALID_INPUT)
            assert.match(error.message, / because actor must /)
            assert.doesNotMatch(inspect(error), /s3cret/)
            return true
          })
        }
      }
      assert.deepEqual([await entriesOf(given), await settings.endpoints.list(organizationId)], before)
    })

    test('is stored unchanged and counted in code points, and null means no actor', async () => {
      const given = await setUp()
      const { settings, organizationId, endpointId } = given
      for (const actor of ['🏺'.repeat(200), ' "O\'Brien" \n 株式会社 ', null]) {
        await settings.endpoints.rotateSecret(organizationId, endpointId, { actor })
        assert.equal((await entriesOf(given))[0]?.actor, actor)
      }
    })
  })

  describe('audit.list()', () => {
    test('audit.list() returns pages with every entry once, and null after the last', async () => {
      const given = await setUp()
      const { settings, organizationId, endpointId } = given
      for (let entry = 0; entry < 5; entry++)
        await settings.endpoints.rotateSecret(organizationId, endpointId)
      const all = (await entriesOf(given)).map(({ id }) => id)
      assert.equal(all.length, 7)
      for (const limit of [1, 3, 7]) {
        const seen: string[] = []
        let before: string | null = null
        do {
          const page: Awaited<ReturnType<typeof settings.audit.list>> = await settings.audit.list(
            organizationId,
            { limit, before },
          )
          assert.ok(page.data.length <= limit)
          seen.push(...page.data.map(({ id }) => id))
          before = page.next
        } while (before !== null)
        assert.deepEqual(seen, all)
      }
    })

    test('audit.list() returns the entries of a subject in that organization only', async () => {
      const given = await setUp()
      const { settings, organizationId, endpointId, keyId } = given
      await settings.endpoints.pause(organizationId, endpointId)
      await settings.rateLimits.set(organizationId, { perSecond: 1, burst: 1 })
      const actionsOf = async (subjectId: string, owner = organizationId) =>
        (await settings.audit.list(owner, { subjectId })).data.map(({ action }) => action)
      assert.deepEqual(await actionsOf(endpointId), ['endpoint.paused', 'endpoint.registered'])
      assert.deepEqual(await actionsOf(keyId), ['api_key.created'])
      assert.deepEqual(await actionsOf(organizationId), ['rate_limit.set'])
      for (const unknown of ['we_unknown', '', 'nul \0', '\ud800'])
        assert.deepEqual(await actionsOf(unknown), [])
      assert.deepEqual(await actionsOf(endpointId, newOrganization()), [])
    })

    test('audit.list() names everything that is invalid in a query', async () => {
      const { settings, organizationId } = await setUp()
      const refused: [string, unknown[], RegExp][] = [
        ['limit', [0, 201, 1.5, '50', null], / because limit must be a whole number from 1 to 200$/],
        ['subjectId', [7, null, {}], / because subjectId must be a string$/],
        ['action', [7, null, '', 'endpoint.unknown'], / because action must be one of api_key\.created, /],
        ['actor', [7, null, '', 'nul \0'], / because actor must /],
        [
          'since',
          [7, null, '2026-01-01', 'soon'],
          / because since must be a Date, or ISO 8601 with a time zone/,
        ],
        ['until', ['2026-01-01T00:00:00'], / because until must be a Date, or ISO 8601 with a time zone/],
        [
          'before',
          [7, {}, '', 'zzz', `dlv_${'0'.repeat(26)}`],
          / because before must be null, or the next of an earlier page: aud_ /,
        ],
      ]
      for (const [name, values, message] of refused) {
        for (const value of values) {
          const call = settings.audit.list(organizationId, untyped({ [name]: value }))
          await assert.rejects(call, { code: INVALID_INPUT, message })
        }
      }
      await assert.rejects(settings.audit.list(''), {
        code: INVALID_INPUT,
        message: /^Cannot list the audit because organizationId must /,
      })
    })
  })

  test('no call shows a key or signing secret after it was created', async () => {
    const given = await setUp()
    const { settings, organizationId } = given
    const { apiKeys, endpoints, deliveries, audit } = settings
    const key = await apiKeys.create(organizationId, { name: 'Shop', scopes: ['clients:read'] })
    const { previous, ...rotatedKey } = await apiKeys.rotate(organizationId, key.id)
    const endpoint = await endpoints.register(organizationId, { url: URL })
    const rotated = await endpoints.rotateSecret(organizationId, endpoint.id)
    const failedDelivery = async () => {
      await publish(given.store, organizationId)
      await record(given.store, await claim(given.store, organizationId), 'failed')
      return (await deliveries.list(organizationId)).data[0]?.id ?? ''
    }
    const id = endpoint.id

    const shown = [
      previous,
      await apiKeys.list(organizationId),
      await apiKeys.revoke(organizationId, rotatedKey.id),
      await endpoints.update(organizationId, id, { description: 'x' }),
      await endpoints.pause(organizationId, id),
      await endpoints.resume(organizationId, id),
      await endpoints.disable(organizationId, id),
      await endpoints.enable(organizationId, id),
      await endpoints.sendTest(organizationId, id),
      await endpoints.list(organizationId),
      await deliveries.redeliver(organizationId, await failedDelivery()),
      await deliveries.recover(organizationId),
      await deliveries.list(organizationId),
      await Promise.all(
        (await deliveries.list(organizationId)).data.map((one) => deliveries.get(organizationId, one.id)),
      ),
      await deliveries.cancel(
        organizationId,
        (await deliveries.list(organizationId, { states: ['pending'] })).data[0]?.id ?? '',
      ),
      await endpoints.remove(organizationId, id),
      await audit.list(organizationId, { limit: 200 }),
    ]
    const text = JSON.stringify(shown)
    const hidden = [
      ...[key.key, rotatedKey.key].flatMap((text) => [
        text,
        text.slice('bapi_live_'.length, -4),
        digestApiKey(text),
      ]),
      ...[endpoint.secret, rotated.secret].map((secret) => secret.slice('whsec_'.length)),
      'whsec_',
      'plain.',
      'sealed',
      'digest',
    ]
    for (const secret of hidden) assert.equal(text.includes(secret), false, secret)
  })
})
