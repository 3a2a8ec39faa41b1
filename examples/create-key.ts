// Creates an API key for an organization. Without a key, all operations respond with 401. In a real application, this
// would be a button in the developer settings.
//
//   DATABASE_URL=postgres://… npx tsx examples/create-key.ts ORGANIZATION_ID

import { SCOPES } from 'business-api-kit'
import { createPostgresStore, migrate } from 'business-api-kit/postgres'
import { createDeveloperSettings } from 'business-api-kit/settings'

const { DATABASE_URL } = process.env
const [organizationId] = process.argv.slice(2)
if (!DATABASE_URL || !organizationId) {
  console.error(
    'Set DATABASE_URL to a PostgreSQL database, and give the id of an organization as the argument',
  )
  process.exit(2)
}
await migrate(DATABASE_URL)

const store = createPostgresStore(DATABASE_URL)
const settings = createDeveloperSettings(store)

const { key } = await settings.apiKeys.create(organizationId, { name: 'From the example', scopes: SCOPES })
// The key is only shown now, because the store only has its digest.
console.log(key)

await store.close()
