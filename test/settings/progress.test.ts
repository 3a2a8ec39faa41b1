import assert from 'node:assert/strict'
import { test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createSetUp, URL } from './_endpoints.ts'
import { describeOnEveryStore } from './_stores.ts'

// Types allow an async function in place of one that returns nothing. If it rejects, the process must not end.

const failure = new Error('The progress is lost')
async function reject(): Promise<never> {
  throw failure
}

describeOnEveryStore((open) => {
  const setUp = createSetUp(open)

  test('each call with an async onProgress waits for it, and ends with its error', async () => {
    const { settings, store, organizationId } = setUp()
    const { clients } = createPlatform(store)
    const { business } = await clients.create(organizationId, { name: 'Atlas' })
    const { endpoints, deliveries, organizations } = settings
    const { id } = await endpoints.register(organizationId, { url: URL })
    const options = { onProgress: reject }
    await assert.rejects(endpoints.backfill(organizationId, id, options), failure)
    await endpoints.disable(organizationId, id)
    await clients.create(organizationId, { name: 'Brise' })
    await endpoints.enable(organizationId, id)
    await assert.rejects(deliveries.recover(organizationId, options), failure)
    await assert.rejects(organizations.forgetBusiness(organizationId, business.id, options), failure)
    await assert.rejects(organizations.delete(organizationId, options), failure)
  })

  test('events.follow() with an async onError ends with its error', async () => {
    const { store, organizationId } = setUp()
    let isDown = false
    const mark: typeof store.eventLog.mark = async (id) => {
      if (isDown) throw storeUnavailable('The database is down')
      return store.eventLog.mark(id)
    }
    const eventLog = { ...store.eventLog, mark }
    const broken = createDeveloperSettings({ ...store, eventLog }, { allowPlaintextSecrets: true })
    const onBegin = (): void => {
      isDown = true
    }
    const feed = broken.events.follow(organizationId, { onBegin, onError: reject })
    await assert.rejects(async () => {
      for await (const _ of feed);
    }, failure)
  })
})
