// A delivery loop in a process of its own, so that it can be killed, frozen and stopped, and so that an error nobody
// catches is seen as what it is: the end of the process.
//
//   node --import tsx test/faults/_deliverer.ts '{"databaseUrl":"postgres://…"}'
//
// Prints a line when it runs. SIGTERM ends it as a host would: the loop is stopped, then everything closed, and the
// process ends by itself, with nothing left that could keep it. It is killed when its standard input ends.

import { createPostgresStore, type DatabaseOptions } from '../../lib/postgres.ts'
import { createDeliveryLoop, createWebhookSender, type DeliveryLoopOptions } from '../../lib/webhooks.ts'

/** What a deliverer of these tests is started with. */
export interface DelivererConfig {
  readonly databaseUrl: string
  readonly store?: DatabaseOptions
  readonly loop?: Pick<DeliveryLoopOptions, 'concurrency' | 'leaseMs' | 'pollIntervalMs' | 'retryDelaysMs'>
  /** How long SIGTERM waits for the attempts in flight. Default that of the loop. */
  readonly stopTimeoutMs?: number
}

const config = JSON.parse(process.argv[2] ?? '{}') as DelivererConfig
const store = createPostgresStore(config.databaseUrl, config.store)
const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true })
// With the default logger: what the loop has to say is read by the tests.
const loop = createDeliveryLoop(store, sender, config.loop)
loop.start()

process.stdin.resume().on('end', () => process.exit(1))
process.once('SIGTERM', async () => {
  await loop.stop({ timeoutMs: config.stopTimeoutMs })
  await sender.close()
  await store.close()
  process.stdin.destroy()
})
console.log('running')
