// Hooks around the API. Organizations with a list of networks can only be accessed from these, and calls are counted in
// our own table. If a create is repeated, it's only counted once.
//
//   DATABASE_URL=postgres://… PORT=3000 ALLOWED='{"org_1":["203.0.113.0/24"]}' npx tsx examples/metering.ts

import { createServer } from 'node:http'
import { BlockList, isIPv6 } from 'node:net'
import { createBusinessApi, Refusal } from 'business-api-kit'
import { createPostgresStore, migrate } from 'business-api-kit/postgres'
import postgres from 'postgres'

const { DATABASE_URL, PORT = '3000', ALLOWED = '{}' } = process.env
if (!DATABASE_URL) {
  console.error('Set DATABASE_URL to a PostgreSQL database')
  process.exit(2)
}
await migrate(DATABASE_URL)

const sql = postgres(DATABASE_URL, { onnotice: () => {} })
await sql`create table if not exists api_usage (organization_id text primary key, calls bigint not null)`

// A real application reads these from its own table. Hooks can be async.
const networks = new Map(
  Object.entries<string[]>(JSON.parse(ALLOWED)).map(([organizationId, cidrs]) => [
    organizationId,
    listOf(cidrs),
  ]),
)
const calls = new Map<string, number>()

const store = createPostgresStore(DATABASE_URL)
const api = createBusinessApi(store, {
  onRequest({ organizationId, remoteAddress }) {
    const allowed = networks.get(organizationId)
    if (!allowed || isIn(allowed, remoteAddress)) return
    throw new Refusal(403, 'The API key cannot be used from this address')
  },
  onResponse({ organizationId, status, isReplay }) {
    // A replay didn't create anything, and errors are free.
    if (organizationId === null || status >= 400 || isReplay) return
    calls.set(organizationId, (calls.get(organizationId) ?? 0) + 1)
  },
})

/** Adds the counts to the table. A single statement covers many calls, so that no call has to wait for it. */
async function writeUsage(): Promise<void> {
  for (const [organizationId, count] of [...calls]) {
    await sql`
      insert into api_usage values (${organizationId}, ${count})
      on conflict (organization_id) do update set calls = api_usage.calls + excluded.calls`
    // Only subtract what was written, so nothing is lost if the statement fails or there were calls in the meantime.
    calls.set(organizationId, (calls.get(organizationId) ?? 0) - count)
  }
}

function listOf(cidrs: readonly string[]): BlockList {
  const list = new BlockList()
  for (const cidr of cidrs) {
    const [network = '', prefix = ''] = cidr.split('/')
    list.addSubnet(network, Number(prefix), isIPv6(network) ? 'ipv6' : 'ipv4')
  }
  return list
}

/** An IPv4 address may be in IPv6 notation, for example `::ffff:203.0.113.7`. */
function isIn(list: BlockList, address: string | null): boolean {
  return address !== null && list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}

const timer = setInterval(() => void writeUsage().catch(console.error), 10_000)
const server = createServer(api)
server.listen(Number(PORT), () => console.log('Listening on', server.address()))

process.once('SIGTERM', () => {
  clearInterval(timer)
  server.close(async () => {
    await writeUsage()
    await Promise.all([store.close(), sql.end()])
  })
  // Otherwise a connection that never sends a whole request would keep the server open forever.
  setTimeout(() => server.closeAllConnections(), 5000).unref()
})
