// An application with a single process that runs the API in an Express app, makes its own calls, and delivers webhooks.
// On SIGTERM it exits without losing a request or attempt. To create the first key, see examples/create-key.ts.
//
//   DATABASE_URL=postgres://… BUSINESS_API_SECRET_KEYS=$(openssl rand -base64 32) PORT=3000 \
//     npx tsx examples/express-with-webhooks.ts

import { createBusinessApi } from 'business-api-kit'
import { createPlatform } from 'business-api-kit/platform'
import { createPostgresStore, migrate } from 'business-api-kit/postgres'
import { createDeliveryLoop, createWebhookSender } from 'business-api-kit/webhooks'
import express from 'express'

const { DATABASE_URL, BUSINESS_API_SECRET_KEYS, LOCAL_DEVELOPMENT, PORT = '3000' } = process.env
if (!DATABASE_URL || !BUSINESS_API_SECRET_KEYS) {
  console.error(
    'Set DATABASE_URL to a PostgreSQL database and BUSINESS_API_SECRET_KEYS to 32 bytes in base64',
  )
  process.exit(2)
}
await migrate(DATABASE_URL)

const store = createPostgresStore(DATABASE_URL)
const platform = createPlatform(store)
const sender = createWebhookSender({ localDevelopment: LOCAL_DEVELOPMENT === '1' })
const loop = createDeliveryLoop(store, sender, {
  secretKeys: BUSINESS_API_SECRET_KEYS.split(','),
  onNotice: (notice) => console.log('Notice:', notice),
})

const app = express()
app.use('/platform', createBusinessApi(store))

// One of our own routes, behind our own login. It changes a record, and the loop sends the event.
app.post('/projects/:id/complete', async (request, response) => {
  const project = await platform.projects.complete('org_1', { projectId: request.params.id })
  response.json(project)
})

loop.start()
const server = app.listen(Number(PORT), () => console.log('Listening on', server.address()))

// Stop accepting requests first, then stop making attempts, and finally close the connections.
process.once('SIGTERM', async () => {
  // Otherwise a connection that never sends a whole request would keep the server open forever.
  setTimeout(() => server.closeAllConnections(), 5000).unref()
  await new Promise((resolve) => server.close(resolve))
  await loop.stop()
  await sender.close()
  await store.close()
})
