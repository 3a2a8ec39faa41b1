// The API on plain node:http, along with our own routes. To create the first key, see examples/create-key.ts.
//
//   DATABASE_URL=postgres://… PORT=3000 BASE_PATH=/platform npx tsx examples/node-http.ts

import { createServer } from 'node:http'
import { createBusinessApi } from 'business-api-kit'
import { createPostgresStore, migrate } from 'business-api-kit/postgres'

const { DATABASE_URL, PORT = '3000', BASE_PATH = '' } = process.env
if (!DATABASE_URL) {
  console.error('Set DATABASE_URL to a PostgreSQL database')
  process.exit(2)
}
await migrate(DATABASE_URL)

const store = createPostgresStore(DATABASE_URL)
const api = createBusinessApi(store, { basePath: BASE_PATH })

const server = createServer((request, response) => {
  // Handle paths that the API doesn't serve. If you don't have any, use createServer(api).
  api(request, response, () => response.end("The host's own page\n"))
})
server.listen(Number(PORT), () => console.log('Listening on', server.address()))

process.once('SIGTERM', () => {
  server.close(() => store.close())
  // Otherwise a connection that never sends a whole request would keep the server open forever.
  setTimeout(() => server.closeAllConnections(), 5000).unref()
})
