import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { INVALID_INPUT, INVALID_STATE, SECRET_UNAVAILABLE } from '../../lib/base/errors.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createSecretSealer } from '../../lib/webhooks/secret-sealing.ts'
import type { WebhookRequest } from '../../lib/webhooks/webhook-sender.ts'
import { newEntry } from '../_audit.ts'
import { named } from '../_service.ts'
import { createSetUp, KEY, URL } from './_endpoints.ts'
import { assertRefused, untyped } from './_refusals.ts'
import { describeOnEveryStore } from './_stores.ts'

/** A secret in the form used before standard base64, which was 32 bytes in base64url without padding. */
const OLDER = `whsec_${'-_'.repeat(21)}A`

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  /** An endpoint whose current secret can't be decoded by Standard Webhooks. */
  async function setUpOlder() {
    const { settings, store, organizationId } = setUp()
    const { id } = await settings.endpoints.register(organizationId, { url: URL })
    const sealedSecret = createSecretSealer({ secretKeys: [KEY] }).seal(OLDER, {
      organizationId,
      endpointId: id,
    })
    const rotation = { endpointId: id, changeId: 'chg_older', sealedSecret, overlapMs: 0 }
    await store.endpoints.rotateSecret({ organizationId, ...rotation, entry: newEntry({ subjectId: id }) })
    return { settings, store, organizationId, id }
  }

  describe('the option standardWebhooks of an endpoint', () => {
    test('can be set with register() and update(), and update() writes an entry', async () => {
      const { settings, organizationId } = setUp()
      const chosen = await settings.endpoints.register(organizationId, { url: URL, standardWebhooks: true })
      assert.equal(chosen.standardWebhooks, true)
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      for (const standardWebhooks of [true, true, false]) {
        const changed = await settings.endpoints.update(organizationId, id, { standardWebhooks })
        assert.equal(changed.standardWebhooks, standardWebhooks)
        assert.deepEqual(await settings.endpoints.get(organizationId, id), changed)
      }
      const { data } = await settings.audit.list(organizationId)
      const updates = data.filter(({ action }) => action === 'endpoint.updated')
      assert.deepEqual(
        updates.map(({ details }) => details),
        [{ fields: ['standardWebhooks'] }, { fields: ['standardWebhooks'] }],
      )
    })

    test('is rejected for an older secret until the secret is rotated', async () => {
      const { settings, organizationId, id } = await setUpOlder()
      const turnOn = () => settings.endpoints.update(organizationId, id, { standardWebhooks: true })
      const about = / because Standard Webhooks cannot decode its signing secret: rotate the secret first$/
      await assertRefused(turnOn(), INVALID_STATE, 'Cannot update a webhook endpoint', about)
      assert.equal((await settings.endpoints.get(organizationId, id)).standardWebhooks, false)
      assert.equal(
        (await settings.endpoints.update(organizationId, id, { standardWebhooks: false })).standardWebhooks,
        false,
      )
      await settings.endpoints.rotateSecret(organizationId, id)
      assert.equal((await turnOn()).standardWebhooks, true)
    })

    test('is rejected without the key that opens the secret, and for anything but true and false', async () => {
      const { settings, store, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      const other = createDeveloperSettings(store, { secretKeys: [randomBytes(32)] })
      await assert.rejects(other.endpoints.update(organizationId, id, { standardWebhooks: true }), {
        code: SECRET_UNAVAILABLE,
      })
      const call = settings.endpoints.update(organizationId, id, untyped({ standardWebhooks: 'yes' }))
      const about = / because standardWebhooks must be true or false$/
      await assertRefused(call, INVALID_INPUT, 'Cannot update a webhook endpoint', about)
    })

    test("applies to tests and deliveries, whether it's set for the endpoint or by the host for all of them", async () => {
      const { store, organizationId, id, settings } = await setUpOlder()
      const requests: WebhookRequest[] = []
      const sender = {
        async send(request: WebhookRequest) {
          requests.push(request)
          return { status: 204, error: null, bodyExcerpt: '', durationMs: 1 }
        },
        close: async () => {},
      }
      const withSender = (standardWebhooks: boolean) =>
        createDeveloperSettings(named(store, { standardWebhooks }), { secretKeys: [KEY], sender })
      const standardOf = async (standardWebhooks: boolean) => {
        await withSender(standardWebhooks).endpoints.sendTest(organizationId, id)
        const names = Object.keys(requests.at(-1)?.headers ?? {})
        return names.filter((name) => name.startsWith('Webhook-'))
      }
      const all = ['Webhook-Id', 'Webhook-Timestamp', 'Webhook-Signature']
      assert.deepEqual(await standardOf(true), [], 'an older secret')
      await settings.endpoints.rotateSecret(organizationId, id)
      assert.deepEqual(await standardOf(false), [])
      assert.deepEqual(await standardOf(true), all)
      assert.equal(
        requests.at(-1)?.headers['Webhook-Signature']?.split(' ').length,
        1,
        'the older is left out',
      )
      await settings.endpoints.update(organizationId, id, { standardWebhooks: true })
      assert.deepEqual(await standardOf(false), all)
    })
  })
})
