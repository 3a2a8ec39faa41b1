// An application with a custom store (tracker-store.ts) that uses PostgreSQL for everything but project statuses.
//
//   TRACKER_URL=http://tracker.internal DATABASE_URL=postgres://… PORT=3000 npx tsx examples/custom-store.ts

import { createServer } from 'node:http'
import { createBusinessApi } from 'business-api-kit'
import { createPostgresStore, migrate } from 'business-api-kit/postgres'
import { createStatusReader, createStore } from './tracker-store.ts'

const { TRACKER_URL = 'http://127.0.0.1:4000', DATABASE_URL, PORT = '3000' } = process.env
if (!DATABASE_URL) {
  console.error('Set DATABASE_URL to a PostgreSQL database')
  process.exit(2)
}
await migrate(DATABASE_URL)

const postgres = createPostgresStore(DATABASE_URL)
const store = createStore({ rest: postgres, readStatuses: createStatusReader(TRACKER_URL) })

const server = createServer(createBusinessApi(store))
server.listen(Number(PORT), () => console.log('Listening on', server.address()))

process.once('SIGTERM', () => {
  server.close(() => postgres.close())
  // Otherwise a connection that never sends a whole request would keep the server open forever.
  setTimeout(() => server.closeAllConnections(), 5000).unref()
})
