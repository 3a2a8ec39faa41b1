// A delivery loop in a separate process. Tests can kill, freeze and stop the process, and an uncaught error ends the process, as
// in a real host.
//
//   node --import tsx test/faults/_deliverer.ts '{"databaseUrl":"postgres://…"}'
//
// Prints a line when the loop runs. SIGTERM ends the process as in a host: the loop is stopped, everything is closed, and the
// process ends by itself, because nothing keeps the process alive. The process is killed when the standard input ends.

import { createPostgresStore, type DatabaseOptions } from '../../lib/postgres.ts'
import {
  createDeliveryLoop,
  createWebhookSender,
  type DeliveryLoopOptions,
  type WebhookSenderOptions,
} from '../../lib/webhooks.ts'

/** The arguments of a deliverer. */
export interface DelivererConfig {
  readonly databaseUrl: string
  readonly store?: DatabaseOptions
  readonly loop?: Pick<DeliveryLoopOptions, 'concurrency' | 'leaseMs' | 'pollIntervalMs' | 'retryDelaysMs'>
  readonly sender?: Pick<WebhookSenderOptions, 'timeoutMs'>
  /** The time for which SIGTERM waits for the attempts in flight. Default that of the loop. */
  readonly stopTimeoutMs?: number
}

const config = JSON.parse(process.argv[2] ?? '{}') as DelivererConfig
const store = createPostgresStore(config.databaseUrl, config.store)
const sender = createWebhookSender({ allowHttp: true, allowPrivateNetworks: true, ...config.sender })
// With the default logger, because the tests read the loop's log.
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
