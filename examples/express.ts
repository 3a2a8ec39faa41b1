// The API in an Express 4 or 5 app, mounted under a prefix along with other routes. To create the first
// key, see examples/create-key.ts.
//
//   DATABASE_URL=postgres://… PORT=3000 npx tsx examples/express.ts

import { createBusinessApi } from 'business-api-kit'
import { createPostgresStore, migrate } from 'business-api-kit/postgres'
import express from 'express'

const { DATABASE_URL, PORT = '3000' } = process.env
if (!DATABASE_URL) {
  console.error('Set DATABASE_URL to a PostgreSQL database')
  process.exit(2)
}
await migrate(DATABASE_URL)

const store = createPostgresStore(DATABASE_URL)
const app = express()

// You can use your own body parser before or after the API.
app.use(express.json())
app.use('/platform', createBusinessApi(store))

// Requests for paths the API doesn't serve are passed on to your own routes, even below the prefix.
app.get('/platform/about', (_request, response) => {
  response.send("The host's own page\n")
})
app.use((_request, response) => {
  response.status(404).send("The host's own 404\n")
})

const server = app.listen(Number(PORT), () => console.log('Listening on', server.address()))

process.once('SIGTERM', () => {
  server.close(() => store.close())
  // Otherwise a connection that never sends a whole request would keep the server open forever.
  setTimeout(() => server.closeAllConnections(), 5000).unref()
})
