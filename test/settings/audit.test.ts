import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { AUDIT_ACTIONS, type AuditAction, type AuditEntry } from '../../lib/access/audit.ts'
import { BusinessApiError, INVALID_INPUT, INVALID_STATE, NOT_FOUND } from '../../lib/base/errors.ts'
import { createIds } from '../../lib/base/ids.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { type Acting, createDeveloperSettings, type DeveloperSettings } from '../../lib/settings.ts'
import type { WebhookSender } from '../../lib/webhooks/webhook-sender.ts'
import { newEntry } from '../_audit.ts'
import { claim, describeOnEveryStore, newOrganization, publish, record } from './_stores.ts'

const URL = 'https://hooks.example.com/t0ken?key=t0ken'
const SENDER: WebhookSender = {
  send: async () => ({ status: 204, error: null, bodyExcerpt: '', durationMs: 1 }),
  close: async () => {},
}

/** A value that the compiler would not let through, as JavaScript hosts pass them. */
function untyped<T>(value: unknown): T {
  return value as T
}

/** The parts that a call needs. */
interface Given {
  readonly settings: DeveloperSettings
  readonly store: BusinessApiStore
  readonly organizationId: string
  /** Of an endpoint and of a key that are there. */
  readonly endpointId: string
  readonly keyId: string
}

/** The entry of a call, without id, time and actor. */
type Left = Pick<AuditEntry, 'subjectId' | 'details'>

/** A delivery that was given up. */
async function makeDeadLetter({ store, organizationId }: Given): Promise<string> {
  await publish(store, organizationId)
  const [delivery, ...others] = await claim(store, organizationId)
  assert.ok(delivery && others.length === 0)
  await record(store, [delivery], 'dead_lettered')
  return delivery.id
}

/** For each action the call and the expected entry. */
const CALLS: Readonly<Record<AuditAction, (given: Given, acting: Acting) => Promise<Left>>> = {
  async 'api_key.created'({ settings, organizationId }, acting) {
    const expiresAt = '2099-02-28T12:00:00.010Z'
    const rateLimit = { perSecond: 0.5, burst: 7 }
    const chosen = { name: 'Shop', scopes: ['clients:read'], expiresAt, rateLimit } as const
    const { id } = await settings.apiKeys.create(organizationId, { ...chosen, ...acting })
    return { subjectId: id, details: chosen }
  },
  async 'api_key.revoked'({ settings, organizationId, keyId }, acting) {
    await settings.apiKeys.revoke(organizationId, keyId, acting)
    return { subjectId: keyId, details: {} }
  },
  async 'api_key.rotated'({ settings, organizationId, keyId }, acting) {
    const { id } = await settings.apiKeys.rotate(organizationId, keyId, { overlapMs: 1000, ...acting })
    return { subjectId: keyId, details: { successorId: id, overlapMs: 1000 } }
  },
  async 'rate_limit.set'({ settings, organizationId }, acting) {
    const rateLimit = { perSecond: 2, burst: 3 }
    await settings.rateLimits.set(organizationId, rateLimit, acting)
    return { subjectId: organizationId, details: { rateLimit } }
  },
  async 'endpoint.registered'({ settings, organizationId }, acting) {
    const given = { url: URL, types: ['client.created'], headers: { 'X-Key': 't0ken' } } as const
    const { id } = await settings.endpoints.register(organizationId, { ...given, ...acting })
    return { subjectId: id, details: { types: given.types } }
  },
  async 'endpoint.updated'({ settings, organizationId, endpointId }, acting) {
    const changes = { url: `${URL}2`, description: '', headers: { 'X-Key': 't0ken' } }
    await settings.endpoints.update(organizationId, endpointId, { ...changes, ...acting })
    return { subjectId: endpointId, details: { fields: ['url', 'headers'] } }
  },
  async 'endpoint.paused'({ settings, organizationId, endpointId }, acting) {
    await settings.endpoints.pause(organizationId, endpointId, acting)
    return { subjectId: endpointId, details: {} }
  },
  async 'endpoint.resumed'({ settings, organizationId, endpointId }, acting) {
    await settings.endpoints.pause(organizationId, endpointId)
    await settings.endpoints.resume(organizationId, endpointId, acting)
    return { subjectId: endpointId, details: {} }
  },
  async 'endpoint.disabled'({ settings, organizationId, endpointId }, acting) {
    await settings.endpoints.disable(organizationId, endpointId, acting)
    return { subjectId: endpointId, details: {} }
  },
  async 'endpoint.enabled'({ settings, organizationId, endpointId }, acting) {
    await settings.endpoints.disable(organizationId, endpointId)
    await settings.endpoints.enable(organizationId, endpointId, acting)
    return { subjectId: endpointId, details: {} }
  },
  async 'endpoint.removed'({ settings, organizationId, endpointId }, acting) {
    await settings.endpoints.remove(organizationId, endpointId, acting)
    return { subjectId: endpointId, details: {} }
  },
  async 'endpoint.secret_rotated'({ settings, organizationId, endpointId }, acting) {
    const changeId = createIds()('chg')
    const options = { id: changeId, overlapMs: 0, ...acting }
    await settings.endpoints.rotateSecret(organizationId, endpointId, options)
    return { subjectId: endpointId, details: { overlapMs: 0, changeId } }
  },
  async 'endpoint.test_sent'({ settings, organizationId, endpointId }, acting) {
    const options = { type: 'invoice.paid', ...acting } as const
    const { eventId } = await settings.endpoints.sendTest(organizationId, endpointId, options)
    return { subjectId: endpointId, details: { type: 'invoice.paid', eventId } }
  },
  async 'delivery.redelivered'(given, acting) {
    const id = await makeDeadLetter(given)
    await given.settings.deliveries.redeliver(given.organizationId, id, acting)
    return { subjectId: id, details: { recovered: 1 } }
  },
  async 'deliveries.recovered'(given, acting) {
    await makeDeadLetter(given)
    await makeDeadLetter(given)
    const filter = { type: 'client.created', since: '2020-02-29T12:00:00.010Z' } as const
    await given.settings.deliveries.recover(given.organizationId, { ...filter, ...acting })
    return { subjectId: given.organizationId, details: { filter, recovered: 2 } }
  },
  async 'delivery.cancelled'({ settings, store, organizationId }, acting) {
    await publish(store, organizationId)
    const [delivery] = (await settings.deliveries.list(organizationId)).data
    await settings.deliveries.cancel(organizationId, delivery?.id ?? '', acting)
    return { subjectId: delivery?.id ?? '', details: {} }
  },
  async 'events.purged'(given, { actor = null }) {
    await makeDeadLetter(given)
    const { subjectId: _, ...entry } = newEntry({
      action: 'events.purged',
      actor,
      details: { olderThanMs: 0 },
    })
    // Negative, so that events of this moment are old enough by any clock.
    await given.store.deliveries.purge({ eventsAfterMs: -60_000, limit: 1000, entry })
    return { subjectId: given.organizationId, details: { olderThanMs: 0, events: 1 } }
  },
}

describeOnEveryStore((open) => {
  async function setUp(): Promise<Given> {
    const store = open()
    const settings = createDeveloperSettings(store, {
      allowPlaintextSecrets: true,
      allowPrivateNetworks: true,
      sender: SENDER,
    })
    const organizationId = newOrganization()
    const { id: endpointId } = await settings.endpoints.register(organizationId, { url: URL })
    const key = { name: 'Shop', scopes: ['clients:read'] } as const
    const { id: keyId } = await settings.apiKeys.create(organizationId, key)
    return { settings, store, organizationId, endpointId, keyId }
  }

  async function entriesOf({ settings, organizationId }: Given): Promise<readonly AuditEntry[]> {
    const { data, next } = await settings.audit.list(organizationId, { limit: 200 })
    assert.equal(next, null)
    return data
  }

  describe('the entry of each action', () => {
    test('there is a test of every action', () => {
      assert.deepEqual(Object.keys(CALLS), AUDIT_ACTIONS)
    })

    for (const action of AUDIT_ACTIONS) {
      test(`${action}: actor, subject, time and details, and no URL, header or secret`, async () => {
        for (const actor of ['user_42', undefined]) {
          const given = await setUp()
          const earliest = Date.now() - 60_000
          const left = await CALLS[action](given, { actor })
          const [entry, ...before] = await entriesOf(given)
          assert.ok(entry && before.every(({ id }) => id < entry.id))
          const { id, at, ...rest } = entry
          assert.match(id, /^aud_[0-9A-HJKMNP-TV-Z]{26}$/)
          assert.ok(Date.parse(at) > earliest && Date.parse(at) < earliest + 120_000)
          assert.deepEqual(rest, { actor: actor ?? null, action, ...left })
          assert.doesNotMatch(JSON.stringify(await entriesOf(given)), /hooks\.example|t0ken|whsec_|plain\./)
        }
      })
    }

    test('deliveries.recover() of an endpoint is found under that endpoint', async () => {
      const given = await setUp()
      await makeDeadLetter(given)
      const { settings, organizationId, endpointId } = given
      await settings.deliveries.recover(organizationId, { endpointId })
      const { data } = await settings.audit.list(organizationId, { subjectId: endpointId })
      assert.deepEqual(data[0]?.details, { filter: { endpointId }, recovered: 1 })
    })

    test('deliveries.recover() leaves one entry for all batches', async () => {
      const given = await setUp()
      const { settings, store, organizationId, endpointId } = given
      const endpointIds = [endpointId]
      while (endpointIds.length < 13) {
        endpointIds.push((await settings.endpoints.register(organizationId, { url: URL })).id)
      }
      for (const id of endpointIds) await settings.endpoints.disable(organizationId, id)
      await Promise.all(Array.from({ length: 77 }, () => publish(store, organizationId)))
      const before = await entriesOf(given)
      assert.deepEqual(await settings.deliveries.recover(organizationId), { recovered: 1001 })
      const [entry, ...others] = await entriesOf(given)
      assert.deepEqual([entry?.details, others], [{ filter: {}, recovered: 1001 }, before])
    })

    test('a call that changes nothing or is refused leaves no entry', async () => {
      const given = await setUp()
      const { settings, organizationId, endpointId, keyId } = given
      const { apiKeys, endpoints, deliveries, rateLimits } = settings
      await apiKeys.revoke(organizationId, keyId)
      const delivered = await makeDeadLetter(given)
      const before = await entriesOf(given)

      await apiKeys.revoke(organizationId, keyId)
      await rateLimits.set(organizationId, null)
      await endpoints.update(organizationId, endpointId, {})
      await endpoints.update(organizationId, endpointId, { url: URL, types: null })
      await endpoints.enable(organizationId, endpointId)
      await deliveries.recover(organizationId, { type: 'lead.created' })
      const refused: readonly [code: string, call: () => Promise<unknown>][] = [
        [NOT_FOUND, () => apiKeys.revoke(organizationId, 'key_unknown')],
        [NOT_FOUND, () => apiKeys.rotate(organizationId, 'key_unknown')],
        [INVALID_STATE, () => apiKeys.rotate(organizationId, keyId)],
        [NOT_FOUND, () => endpoints.update(organizationId, 'we_unknown', { description: 'x' })],
        [INVALID_INPUT, () => endpoints.update(organizationId, endpointId, { url: 'ftp://x' })],
        [INVALID_INPUT, () => endpoints.register(organizationId, { url: 'ftp://x' })],
        [NOT_FOUND, () => endpoints.pause(organizationId, 'we_unknown')],
        [NOT_FOUND, () => endpoints.remove(organizationId, 'we_unknown')],
        [NOT_FOUND, () => endpoints.rotateSecret(organizationId, 'we_unknown')],
        [NOT_FOUND, () => endpoints.sendTest(organizationId, 'we_unknown')],
        [NOT_FOUND, () => deliveries.redeliver(organizationId, 'dlv_unknown')],
        [NOT_FOUND, () => deliveries.cancel(organizationId, 'dlv_unknown')],
        [INVALID_STATE, () => deliveries.cancel(organizationId, delivered)],
      ]
      for (const [code, call] of refused) await assert.rejects(call, { code })
      assert.deepEqual(await entriesOf(given), before)
    })
  })

  describe('actor', () => {
    /** Every call that takes an actor. */
    function callsOf({ settings, organizationId, endpointId, keyId }: Given) {
      const { apiKeys, endpoints, deliveries, rateLimits } = settings
      const key = { name: 'Shop', scopes: ['clients:read'] } as const
      return [
        (acting: Acting) => apiKeys.create(organizationId, { ...key, ...acting }),
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

    test('is refused unless 1 to 200 characters long, and nothing is done', async () => {
      const given = await setUp()
      const { settings, organizationId } = given
      const before = [await entriesOf(given), await settings.endpoints.list(organizationId)]
      for (const call of callsOf(given)) {
        for (const actor of ['', 's3cret'.repeat(40), 'nul \0', '\ud800', 7, {}]) {
          await assert.rejects(call(untyped({ actor })), (error: unknown) => {
            assert.ok(error instanceof BusinessApiError, inspect(error))
            assert.equal(error.code, INVALID_INPUT)
            assert.match(error.message, / as actor must /)
            assert.doesNotMatch(inspect(error), /s3cret/)
            return true
          })
        }
      }
      assert.deepEqual([await entriesOf(given), await settings.endpoints.list(organizationId)], before)
    })

    test('is kept unchanged, counted in code points; null means no actor', async () => {
      const given = await setUp()
      const { settings, organizationId, endpointId } = given
      for (const actor of ['🏺'.repeat(200), ' "O\'Brien" \n 株式会社 ', null]) {
        await settings.endpoints.rotateSecret(organizationId, endpointId, { actor })
        assert.equal((await entriesOf(given))[0]?.actor, actor)
      }
    })
  })

  describe('audit.list()', () => {
    test('audit.list() gives pages that hold every entry once, and null after the last', async () => {
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

    test('audit.list() shows the entries of a subject, of one organization only', async () => {
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

    test('audit.list() names everything of a query that cannot be used', async () => {
      const { settings, organizationId } = await setUp()
      const refused: [string, unknown[], RegExp][] = [
        ['limit', [0, 201, 1.5, '50', null], / as limit must be a whole number from 1 to 200$/],
        ['subjectId', [7, null, {}], / as subjectId must be a string$/],
        [
          'before',
          [7, {}, '', 'zzz', `dlv_${'0'.repeat(26)}`],
          / as before must be null, or the next of a page before: aud_ /,
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
        message: /^Cannot list the audit as organizationId must /,
      })
    })
  })

  test('no call shows a key or a signing secret after the creation', async () => {
    const given = await setUp()
    const { settings, organizationId } = given
    const { apiKeys, endpoints, deliveries, audit } = settings
    const key = await apiKeys.create(organizationId, { name: 'Shop', scopes: ['clients:read'] })
    const { previous, ...rotatedKey } = await apiKeys.rotate(organizationId, key.id)
    const endpoint = await endpoints.register(organizationId, { url: URL })
    const rotated = await endpoints.rotateSecret(organizationId, endpoint.id)
    const deadLetter = async () => {
      await publish(given.store, organizationId)
      await record(given.store, await claim(given.store, organizationId), 'dead_lettered')
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
      await deliveries.redeliver(organizationId, await deadLetter()),
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
