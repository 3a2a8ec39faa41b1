// An application that serves the API, delivers webhooks, and provides this to operators on a separate port:
//
//   GET /metrics   metrics of this process and the database's queue, for Prometheus
//   GET /health    200 if this process is able to work, otherwise 503 with the reasons. Useful for readiness checks
//
// alerts.yml has Prometheus rules, and dashboard.json is a Grafana dashboard.
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
// Create this before the first request so that all are counted. Leave out `loop` if the process doesn't run one.
const metrics = createMetrics(store, { loop })

const server = createServer(createBusinessApi(store))
server.listen(Number(PORT), () => console.log('Listening on', server.address()))
loop.start()

// Uses a separate port that callers of the API can't reach.
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
  // Otherwise a connection that never sends a whole request would keep the server open forever.
  setTimeout(() => server.closeAllConnections(), 5000).unref()
  await new Promise((resolve) => server.close(resolve))
  await loop.stop()
  operators.close()
  operators.closeAllConnections()
  metrics.close()
  await sender.close()
  await store.close()
})
