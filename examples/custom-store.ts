// A store of the host's own: projects come from the host's project tracker, another service with an HTTP API, and
// everything else stays in PostgreSQL. A store is an object of slices, so a host can replace a single slice. A store
// without any slice of this package is written the same way; the package's memory store is a whole store to read.
//
//   TRACKER_URL=http://tracker.internal DATABASE_URL=postgres://… PORT=3000 npx tsx examples/custom-store.ts

import { createServer } from 'node:http'
import { createBusinessApi, type Project } from 'business-api-kit'
import { createPostgresStore, migrate } from 'business-api-kit/postgres'
import {
  type ApiKeyStore,
  type BusinessApiStore,
  jsonText,
  type PageRequest,
  type ProjectStore,
  storeUnavailable,
} from 'business-api-kit/store'

const { TRACKER_URL = 'http://127.0.0.1:4000', DATABASE_URL, PORT = '3000' } = process.env
if (!DATABASE_URL) {
  console.error('Set DATABASE_URL to a PostgreSQL database')
  process.exit(2)
}
await migrate(DATABASE_URL)

const postgres = createPostgresStore(DATABASE_URL)
const store: BusinessApiStore = {
  ...postgres,
  projects: createTrackerProjects(TRACKER_URL, postgres.apiKeys),
}

const server = createServer(createBusinessApi(store))
server.listen(Number(PORT), () => console.log('Listening on', server.address()))

process.once('SIGTERM', () => {
  server.close(() => postgres.close())
  // A connection that never sends a whole request would keep the server open for ever.
  setTimeout(() => server.closeAllConnections(), 5000).unref()
})

function createTrackerProjects(trackerUrl: string, apiKeys: ApiKeyStore): ProjectStore {
  return {
    async admitAndList(request, { limit, before }) {
      const admission = await apiKeys.admit(request)
      // Only an admitted caller may learn anything, even that the tracker is down.
      if (admission.outcome !== 'admitted') return { admission, page: null }
      const projects = await fetchProjects(trackerUrl, admission.caller.organizationId, { limit, before })
      return { admission, page: jsonText(projects) }
    },
    // The API has no operation that would call these.
    list: () => Promise.reject(new TypeError('Cannot list projects here: the tracker does that')),
    get: () => Promise.reject(new TypeError('Cannot get a project here: the tracker does that')),
    create: () => Promise.reject(new TypeError('Cannot create a project here: the tracker does that')),
    change: () => Promise.reject(new TypeError('Cannot change a project here: the tracker does that')),
  }
}

/** Fetches the organization's newest projects from the tracker, which answers in the form of the API. */
async function fetchProjects(
  trackerUrl: string,
  organizationId: string,
  { limit, before }: PageRequest,
): Promise<Project[]> {
  const url = new URL(
    `/organizations/${encodeURIComponent(organizationId)}/projects?limit=${limit}`,
    trackerUrl,
  )
  if (before !== undefined) url.searchParams.set('before', before)
  const response = await fetch(url, { signal: AbortSignal.timeout(2000) }).catch((cause: unknown) => {
    // "Not now" instead of "a bug": the caller gets 503 and Retry-After, not 500.
    throw storeUnavailable('Cannot list projects because the tracker cannot be reached', cause)
  })
  if (!response.ok)
    throw storeUnavailable(`Cannot list projects because the tracker answered ${response.status}`)
  return (await response.json()) as Project[]
}
