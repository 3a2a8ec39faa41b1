import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { INVALID_INPUT } from '../../lib/base/errors.ts'
import { createSetUp, URL } from './_endpoints.ts'
import { assertRefused, untyped } from './_refusals.ts'
import { describeOnEveryStore } from './_stores.ts'

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  describe('the limit maxPerSecond of an endpoint', () => {
    test('can be set with register() and update(), including decimals, and each change writes an entry', async () => {
      const { settings, organizationId } = setUp()
      const limited = await settings.endpoints.register(organizationId, { url: URL, maxPerSecond: 0.5 })
      assert.equal(limited.maxPerSecond, 0.5)
      const { id, maxPerSecond: none } = await settings.endpoints.register(organizationId, { url: URL })
      assert.equal(none, null)
      for (const maxPerSecond of [2.5, 2.5, 1000, null]) {
        const changed = await settings.endpoints.update(organizationId, id, { maxPerSecond })
        assert.equal(changed.maxPerSecond, maxPerSecond)
        assert.deepEqual(await settings.endpoints.get(organizationId, id), changed)
      }
      const kept = await settings.endpoints.update(organizationId, limited.id, { description: 'Slack' })
      assert.equal(kept.maxPerSecond, 0.5)
      const { data } = await settings.audit.list(organizationId)
      const updates = data.filter(
        ({ action, subjectId }) => action === 'endpoint.updated' && subjectId === id,
      )
      assert.deepEqual(
        updates.map(({ details }) => details),
        [{ fields: ['maxPerSecond'] }, { fields: ['maxPerSecond'] }, { fields: ['maxPerSecond'] }],
      )
    })

    test("is rejected unless it's null or a number from 0.01 to 1,000", async () => {
      const { settings, organizationId } = setUp()
      const { id } = await settings.endpoints.register(organizationId, { url: URL })
      for (const maxPerSecond of [0, 0.009, -1, 1000.1, Number.POSITIVE_INFINITY, Number.NaN, '5']) {
        const call = settings.endpoints.update(organizationId, id, untyped({ maxPerSecond }))
        const about = / because maxPerSecond must be null, or a number from 0\.01 to 1000$/
        await assertRefused(call, INVALID_INPUT, 'Cannot update a webhook endpoint', about)
      }
    })
  })
})
