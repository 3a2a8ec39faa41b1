// A host that serves the API, delivers webhooks, and shows both to its operators on a port of their own:
//
//   GET /metrics   the numbers of this process and the queue of the database, for Prometheus
//   GET /health    200 when this process can do its work, else 503, with the reasons; for a check of readiness
//
// alerts.yml has rules for Prometheus, dashboard.json a dashboard for Grafana.
//
//   DATABASE_URL=postgres://… BUSINESS_API_SECRET_KEYS=… PORT=3000 METRICS_PORT=9464 npx tsx examples/metrics/host.ts

import { createServer } from 'node:http'
import { createBusinessApi } from 'business-api-kit'
import { createMetrics } from 'business-api-kit/metrics'
import { createPostgresStore, migrate } from 'business-api-kit/postgres'
import { createDeliveryLoop, createWebhookSender } from 'business-api-kit/webhooks'

const {
  DATABASE_URL,
  BUSINESS_API_SECRET_KEYS,
  LOCAL_DEVELOPMENT,
  PORT = '3000',
  METRICS_PORT = '9464',
} = process.env
if (!DATABASE_URL || !BUSINESS_API_SECRET_KEYS) {
  console.error(
    'Set DATABASE_URL to a PostgreSQL database and BUSINESS_API_SECRET_KEYS to 32 bytes in base64',
  )
  process.exit(2)
}
await migrate(DATABASE_URL)

const store = createPostgresStore(DATABASE_URL)
const sender = createWebhookSender({ localDevelopment: LOCAL_DEVELOPMENT === '1' })
const loop = createDeliveryLoop(store, sender, { secretKeys: BUSINESS_API_SECRET_KEYS.split(',') })
// Before the first request, so that every request counts. A process without a loop leaves `loop` out.
const metrics = createMetrics(store, { loop })

const server = createServer(createBusinessApi(store))
server.listen(Number(PORT), () => console.log('Listening on', server.address()))
loop.start()

// A port of its own, which no caller of the API reaches.
const operators = createServer(async (request, response) => {
  if (request.method === 'GET' && request.url === '/metrics') {
    response.writeHead(200, { 'Content-Type': metrics.contentType }).end(await metrics.text())
  } else if (request.method === 'GET' && request.url === '/health') {
    const health = await metrics.health()
    response.writeHead(health.isHealthy ? 200 : 503, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify(health))
  } else {
    response.writeHead(404).end()
  }
})
operators.listen(Number(METRICS_PORT), '127.0.0.1', () => console.log('Metrics on', operators.address()))

process.once('SIGTERM', async () => {
  // A connection that never sends a whole request would keep a server open for ever.
  setTimeout(() => server.closeAllConnections(), 5000).unref()
  await new Promise((resolve) => server.close(resolve))
  await loop.stop()
  operators.close()
  operators.closeAllConnections()
  metrics.close()
  await sender.close()
  await store.close()
})
