// Delivers all due webhooks and then exits. Use this with a scheduler if no process can keep running (serverless,
// cron). Webhooks then have to wait for the next run. With most schedulers, that's up to a minute.
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

// It doesn't matter if a run takes longer than the schedule's interval. The next one takes whatever is left.
console.log(await loop.runOnce())
await sender.close()
await store.close()
