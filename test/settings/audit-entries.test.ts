import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { digestApiKey } from '../../lib/access/api-keys.ts'
import { AUDIT_ACTIONS, type AuditAction, type AuditEntry } from '../../lib/access/audit.ts'
import { INVALID_INPUT, INVALID_STATE, NOT_FOUND } from '../../lib/base/errors.ts'
import { createIds } from '../../lib/base/ids.ts'
import { createPlatform } from '../../lib/platform.ts'
import type { Acting } from '../../lib/settings.ts'
import { newEntry } from '../contract/audit-entry.ts'
import { createSetUp, entriesOf, type Given, URL } from './_audit.ts'
import { claim, describeOnEveryStore, publish, record } from './_stores.ts'

/** The audit entry of a call without its id, time and actor. */
type Left = Pick<AuditEntry, 'subjectId' | 'details'>

/** A delivery that has failed for good. */
async function makeFailedDelivery({ store, organizationId }: Given): Promise<string> {
  await publish(store, organizationId)
  const [delivery, ...others] = await claim(store, organizationId)
  assert.ok(delivery && others.length === 0)
  await record(store, [delivery], 'failed')
  return delivery.id
}

/** The call for each action and the expected entry. */
const CALLS: Readonly<Record<AuditAction, (given: Given, acting: Acting) => Promise<Left>>> = {
  async 'api_key.created'({ settings, organizationId }, acting) {
    const expiresAt = '2099-02-28T12:00:00.010Z'
    const rateLimit = { perSecond: 0.5, burst: 7 }
    const chosen = { name: 'Shop', scopes: ['clients:read'], expiresAt, rateLimit } as const
    const { id } = await settings.apiKeys.create(organizationId, { ...chosen, ...acting })
    return { subjectId: id, details: chosen }
  },
  async 'api_key.imported'({ settings, organizationId }, acting) {
    const chosen = { name: 'Shop', scopes: ['clients:read'], expiresAt: null, rateLimit: null } as const
    const old = {
      digest: digestApiKey(`old_${organizationId}_${acting.actor}`),
      prefix: 'old_',
      lastFour: '7f3a',
    }
    const { id } = await settings.apiKeys.import(organizationId, { ...chosen, ...old, ...acting })
    return { subjectId: id, details: chosen }
  },
  async 'api_key.updated'({ settings, organizationId, keyId }, acting) {
    await settings.apiKeys.update(organizationId, keyId, { name: 'Renamed', ...acting })
    return { subjectId: keyId, details: { name: 'Renamed' } }
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
  async 'endpoint.backfilled'({ store, settings, organizationId }, acting) {
    await createPlatform(store).businesses.create(organizationId, { name: 'Atlas' })
    const { id: other } = await settings.endpoints.register(organizationId, {
      url: URL,
      types: ['business.created'],
    })
    await settings.endpoints.backfill(organizationId, other, acting)
    return { subjectId: other, details: { types: ['business.created'], events: 1 } }
  },
  async 'delivery.redelivered'(given, acting) {
    const id = await makeFailedDelivery(given)
    await given.settings.deliveries.redeliver(given.organizationId, id, acting)
    return { subjectId: id, details: { recovered: 1 } }
  },
  async 'deliveries.recovered'(given, acting) {
    await makeFailedDelivery(given)
    await makeFailedDelivery(given)
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
    await makeFailedDelivery(given)
    const { subjectId: _, ...entry } = newEntry({
      action: 'events.purged',
      actor,
      details: { olderThanMs: 0 },
    })
    // Negative, so that current events are old enough by any clock.
    await given.store.deliveries.purge({ eventsAfterMs: -60_000, limit: 1000, entry })
    return { subjectId: given.organizationId, details: { olderThanMs: 0, events: 1 } }
  },
  async 'payment.reversed'({ store, organizationId }, acting) {
    const { invoices } = createPlatform(store)
    const draft = { currency: 'EUR', total: '10', dueDate: '2099-01-31T00:00:00Z' }
    const { id: invoiceId } = await invoices.create(organizationId, draft)
    await invoices.issue(organizationId, { invoiceId })
    const { payment } = await invoices.recordPayment(organizationId, { invoiceId, amount: '10' })
    const given = { invoiceId, paymentId: payment.id, ...acting }
    const { payment: reversal } = await invoices.reversePayment(organizationId, given)
    return { subjectId: payment.id, details: { invoiceId, reversalId: reversal.id } }
  },
}

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  describe('the entry of each action', () => {
    test('every action is tested', () => {
      assert.deepEqual(Object.keys(CALLS), AUDIT_ACTIONS)
    })

    for (const action of AUDIT_ACTIONS) {
      test(`${action}: has the actor, subject, time and details, but no URL, header or secret`, async () => {
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

    test('deliveries.recover() for an endpoint is found under that endpoint', async () => {
      const given = await setUp()
      await makeFailedDelivery(given)
      const { settings, organizationId, endpointId } = given
      await settings.deliveries.recover(organizationId, { endpointId })
      const { data } = await settings.audit.list(organizationId, { subjectId: endpointId })
      assert.deepEqual(data[0]?.details, { filter: { endpointId }, recovered: 1 })
    })

    test('deliveries.recover() writes one entry for all batches', async () => {
      const given = await setUp()
      const { settings, store, organizationId, endpointId } = given
      const endpointIds = [endpointId]
      while (endpointIds.length < 13) {
        endpointIds.push((await settings.endpoints.register(organizationId, { url: URL })).id)
      }
      for (const id of endpointIds) await settings.endpoints.disable(organizationId, id)
      await Promise.all(Array.from({ length: 77 }, () => publish(store, organizationId)))
      const before = await entriesOf(given)
      assert.deepEqual(await settings.deliveries.recover(organizationId), { recovered: 1001, next: null })
      const [entry, ...others] = await entriesOf(given)
      assert.deepEqual([entry?.details, others], [{ filter: {}, recovered: 1001 }, before])
    })

    test('a call that changes nothing or is rejected writes no entry', async () => {
      const given = await setUp()
      const { settings, organizationId, endpointId, keyId } = given
      const { apiKeys, endpoints, deliveries, rateLimits } = settings
      await apiKeys.revoke(organizationId, keyId)
      const delivered = await makeFailedDelivery(given)
      const before = await entriesOf(given)

      await apiKeys.revoke(organizationId, keyId)
      await rateLimits.set(organizationId, null)
      await endpoints.update(organizationId, endpointId, {})
      await endpoints.update(organizationId, endpointId, { url: URL, types: null })
      await endpoints.enable(organizationId, endpointId)
      await deliveries.recover(organizationId, { type: 'lead.created' })
      const refused: readonly [code: string, call: () => Promise<unknown>][] = [
        [NOT_FOUND, () => apiKeys.update(organizationId, 'key_unknown', { name: 'x' })],
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
})
