// A host with a store, a sender and a loop. The host closes everything when the standard input ends, and must then end without a
// call of process.exit().
//
//   node --import tsx test/faults/_ending-host.ts postgres://…
//
// Prints a line of JSON when the host is busy, and a line with the milliseconds that closing took.

import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeliveryLoop, createWebhookSender } from '../../lib/webhooks.ts'

const store = createPostgresStore(process.argv[2] ?? '')
const sender = createWebhookSender()
const loop = createDeliveryLoop(store, sender, { logger: false })
loop.start()
await Promise.all(Array.from({ length: 20 }, () => store.apiKeys.list('org_ending')))
console.log('"busy"')

process.stdin.resume().on('end', async () => {
  // Statements that get no answer.
  const unanswered = Array.from({ length: 5 }, () => store.apiKeys.list('org_ending').catch(() => {}))
  const times: number[] = []
  for (const close of [
    () => loop.stop({ timeoutMs: 500 }),
    () => sender.close({ timeoutMs: 500 }),
    () => store.close({ timeoutMs: 500 }),
  ]) {
    const startedAt = performance.now()
    await close()
    times.push(Math.round(performance.now() - startedAt))
  }
  await Promise.all(unanswered)
  console.log(JSON.stringify(times))
})
