// A process that only delivers webhooks, separate from those that serve requests. You can run any number of them. You
// can also do this without any code by running: business-api-kit deliver
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
  // Marks invoices as overdue when they are due, so subscribers receive invoice.overdue.
  markOverdue: true,
})
loop.start()
console.log('Delivering')

process.once('SIGTERM', async () => {
  // Stop the loop first, which waits up to 12 seconds for attempts in flight. Close the store last.
  await loop.stop()
  await sender.close()
  await store.close()
})
