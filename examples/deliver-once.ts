// Delivers the due webhooks and ends: for a scheduler, where no process may stay (serverless, cron). Webhooks then wait
// for the next run, at most a minute with the smallest interval of most schedulers.
//
//   * * * * *  DATABASE_URL=postgres://… BUSINESS_API_SECRET_KEYS=… npx tsx examples/deliver-once.ts

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
const loop = createDeliveryLoop(store, sender, { secretKeys: BUSINESS_API_SECRET_KEYS.split(',') })

// A run that takes longer than the schedule harms nothing: the next run takes the deliveries that this run has left.
console.log(await loop.runOnce())
await sender.close()
await store.close()
