import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFollower } from '../../lib/cli/commands/delivery-tail.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'

const ORGANIZATION = 'org_tail'

test('createFollower reads a bounded number of deliveries in a look, however many are still to be sent, and finds each end', async () => {
  const store = createMemoryStore()
  const platform = createPlatform(store)
  const { endpoints, deliveries } = createDeveloperSettings(store, { allowPlaintextSecrets: true })
  const { id } = await endpoints.register(ORGANIZATION, { url: 'https://1.1.1.1/hook' })
  await endpoints.pause(ORGANIZATION, id)
  const publish = async (count: number): Promise<void> => {
    for (let made = 0; made < count; made++) {
      await platform.publish(ORGANIZATION, 'project.completed', { projectId: 'proj_1', name: 'Site' })
    }
  }
  let reads = 0
  const counted = {
    ...deliveries,
    get: (...given: Parameters<typeof deliveries.get>) => {
      reads++
      return deliveries.get(...given)
    },
  }
  await publish(1000)
  const [oldest] = (await deliveries.list(ORGANIZATION, { limit: 200 })).data.slice(-1)
  assert.ok(oldest)
  const follower = createFollower(counted, ORGANIZATION, {})
  await follower.look()
  // The 1000 deliveries of before are no longer among the newest 1000.
  await publish(1000)
  await deliveries.cancel(ORGANIZATION, oldest.id)
  const ended: string[] = []
  for (let look = 0; look < 20; look++) {
    reads = 0
    for (const { delivery } of await follower.look()) {
      if (delivery.state === 'cancelled') ended.push(delivery.id)
      follower.note(delivery)
    }
    assert.ok(reads <= 50, `${reads} deliveries were read in a look`)
  }
  assert.deepEqual(ended, [oldest.id])
})
