import assert from 'node:assert/strict'
import { test } from 'node:test'
import { INVALID_INPUT, INVALID_STATE, NOT_FOUND } from '../../lib/base/errors.ts'
import { createPlatform } from '../../lib/platform.ts'
import type { BackfillType } from '../../lib/settings.ts'
import { createSetUp, URL } from './_endpoints.ts'
import { describeOnEveryStore } from './_stores.ts'

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  /** An organization with three clients and an endpoint that was registered later. */
  async function setUpClients(types: readonly BackfillType[] | null = null) {
    const given = setUp()
    const { clients } = createPlatform(given.store)
    for (const name of ['Atlas', 'Brise', 'Cèdre']) await clients.create(given.organizationId, { name })
    const { id } = await given.settings.endpoints.register(given.organizationId, { url: URL, types })
    return { ...given, id, endpoints: given.settings.endpoints }
  }

  test('endpoints.backfill() creates an event for each record, with one audit entry', async () => {
    const { endpoints, settings, organizationId, id } = await setUpClients()
    const progress: number[] = []
    const done = await endpoints.backfill(organizationId, id, {
      actor: 'user_7',
      onProgress: ({ examined }) => progress.push(examined),
    })
    assert.deepEqual(done, { examined: 6, events: 6, next: null })
    assert.deepEqual(progress, [3, 6, 6, 6])
    const { data } = await settings.audit.list(organizationId, { action: 'endpoint.backfilled' })
    assert.deepEqual(
      data.map(({ actor, subjectId, details }) => [actor, subjectId, details.events]),
      [['user_7', id, 6]],
    )
    assert.equal(await settings.deliveries.count(organizationId, { states: ['pending'] }), 6)
    assert.deepEqual(await endpoints.backfill(organizationId, id), { examined: 6, events: 0, next: null })
  })

  test("endpoints.backfill() leaves out types the endpoint isn't subscribed to", async () => {
    const { endpoints, organizationId, id } = await setUpClients(['client.created'])
    const { records } = await endpoints.previewBackfill(organizationId, id)
    assert.deepEqual(records, { 'client.created': 3 })
    const done = await endpoints.backfill(organizationId, id, { types: ['client.created', 'lead.created'] })
    assert.deepEqual(done, { examined: 3, events: 3, next: null })
    const none = await endpoints.backfill(organizationId, id, { types: ['lead.created'] })
    assert.deepEqual(none, { examined: 0, events: 0, next: null })
  })

  test('endpoints.backfill() stops after the current part if aborted, and continues after next', async () => {
    const { endpoints, organizationId, id } = await setUpClients()
    const stopping = new AbortController()
    const first = await endpoints.backfill(organizationId, id, {
      signal: stopping.signal,
      onProgress: () => stopping.abort(),
    })
    assert.deepEqual(first, { examined: 3, events: 3, next: 'client.created' })
    const rest = await endpoints.backfill(organizationId, id, { after: first.next })
    assert.deepEqual(rest, { examined: 3, events: 3, next: null })
  })

  test('endpoints.backfill() with a limit reads no more than that, and all parts together read every record once', async () => {
    const { endpoints, organizationId, id } = await setUpClients()
    let after: string | null = null
    const sums = { examined: 0, events: 0 }
    do {
      const part = await endpoints.backfill(organizationId, id, { after, limit: 2 })
      assert.ok(part.examined <= 2)
      sums.examined += part.examined
      sums.events += part.events
      after = part.next
    } while (after !== null)
    assert.deepEqual(sums, { examined: 6, events: 6 })
  })

  test("backfill calls reject unknown endpoints, endpoints that aren't enabled, and invalid input", async () => {
    const { endpoints, organizationId, id } = await setUpClients()
    for (const call of [endpoints.backfill, endpoints.previewBackfill]) {
      await assert.rejects(call(organizationId, 'we_unknown'), { code: NOT_FOUND })
      for (const types of [[], ['invoice.paid']]) {
        const selection = { types: types as readonly BackfillType[] }
        await assert.rejects(call(organizationId, id, selection), {
          code: INVALID_INPUT,
          message:
            /^Cannot backfill a webhook endpoint because types must be one or more of business\.created, /,
        })
      }
    }
    for (const after of ['cli_01', 'invoice.paid inv_1', 'client.created a b']) {
      const refusal = {
        code: INVALID_INPUT,
        message: /because after must be null, or the next of an earlier part$/,
      }
      await assert.rejects(endpoints.backfill(organizationId, id, { after }), refusal)
    }
    await endpoints.pause(organizationId, id)
    for (const call of [endpoints.backfill, endpoints.previewBackfill]) {
      await assert.rejects(call(organizationId, id), {
        code: INVALID_STATE,
        message: /because the endpoint is paused: enable the endpoint, then repeat the call$/,
      })
    }
  })
})
