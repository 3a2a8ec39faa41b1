// The API in an Express app, 4 or 5, mounted under a prefix between other routes. The first key: examples/create-key.ts
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

// The host's own body parser may come before the API or after it.
app.use(express.json())
app.use('/platform', createBusinessApi(store))

// A path that the API does not serve goes on to the host's own routes, also below the prefix.
app.get('/platform/about', (_request, response) => {
  response.send("The host's own page\n")
})
app.use((_request, response) => {
  response.status(404).send("The host's own 404\n")
})

const server = app.listen(Number(PORT), () => console.log('Listening on', server.address()))

process.once('SIGTERM', () => {
  server.close(() => store.close())
  // A connection that never sends a whole request would keep the server open for ever.
  setTimeout(() => server.closeAllConnections(), 5000).unref()
})
