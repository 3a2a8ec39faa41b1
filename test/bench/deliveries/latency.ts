import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { startPostgres } from '../../../examples/demo/postgres.ts'
import { createPostgresStore, migrate } from '../../../lib/postgres.ts'
import { createDeliveryLoop, createWebhookSender } from '../../../lib/webhooks.ts'
import { percentile } from '../../_percentile.ts'
import { SECRET_KEYS } from '../programs/delivering.ts'
import { addEndpoint, describe, latencies, publish, startDeliverer, startReceiver } from './parts.ts'

// The time from commit to arrival on an idle system, with the loop in the publishing process and in another process. The goals:
// half of the events within 15 ms, and within 50 ms. A negative time is possible, because the loop of another process may see the
// commit before the publisher does.

const EVENTS = Number(process.env.EVENTS ?? 300)
const PAUSE_MS = 30

const database = await startPostgres()
const receiver = await startReceiver(1, 0)
try {
  await migrate(database.url)
  const store = createPostgresStore(database.url)
  await addEndpoint(store, 'org_a', receiver.healthy[0] ?? '')

  const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
  const loop = createDeliveryLoop(store, sender, { secretKeys: SECRET_KEYS })
  loop.start()
  report('same process', await measure(), 15)
  await loop.stop()
  await sender.close()

  const deliverer = await startDeliverer(database.url)
  report('two processes', await measure(), 50)
  const ended = once(deliverer, 'exit')
  deliverer.disconnect()
  await ended
  await store.close()

  async function measure(): Promise<number[]> {
    for (let index = 0; index < 50; index++) await publish(store, 'org_a')
    await sleep(1000)
    const published = []
    for (let index = 0; index < EVENTS; index++) {
      published.push(await publish(store, 'org_a'))
      await sleep(PAUSE_MS)
    }
    await sleep(1000)
    return latencies(published, await receiver.arrivals())
  }
} finally {
  receiver.stop()
  await database.stop()
}

function report(where: string, values: number[], goalMs: number): void {
  const verdict = percentile(values, 0.5) <= goalMs ? 'met' : 'MISSED'
  console.log(`commit to arrival, ${where}: ${describe(values)}; goal p50 <= ${goalMs} ms ${verdict}`)
}
