// A process that only delivers, beside the processes that serve: any number of them share the work. The same from a
// terminal, without a line of code: business-api-kit deliver
//
//   DATABASE_URL=postgres://… BUSINESS_API_SECRET_KEYS=… npx tsx examples/worker.ts

import { createPostgresStore } from 'business-api-kit/postgres'
import { createDeliveryLoop, createWebhookSender } from 'business-api-kit/webhooks'

const { DATABASE_URL, BUSINESS_API_SECRET_KEYS, LOCAL_DEVELOPMENT } = process.env
if (!DATABASE_URL || !BUSINESS_API_SECRET_KEYS) {
  console.error(
    'Set DATABASE_URL to a PostgreSQL database and BUSINESS_API_SECRET_KEYS to 32 bytes in base64',
  )
  process.exit(2)
}

const store = createPostgresStore(DATABASE_URL)
const sender = createWebhookSender({ localDevelopment: LOCAL_DEVELOPMENT === '1' })
const loop = createDeliveryLoop(store, sender, {
  secretKeys: BUSINESS_API_SECRET_KEYS.split(','),
  // Invoices that are due become overdue, and subscribers get invoice.overdue.
  markOverdue: true,
})
loop.start()
console.log('Delivering')

process.once('SIGTERM', async () => {
  // First the loop, because `stop` waits for the attempts in flight, 12 seconds at most; the store last.
  await loop.stop()
  await sender.close()
  await store.close()
})
