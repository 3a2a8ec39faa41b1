import * as v from 'valibot'
import { createBusinessApi, defineRoute, defineService, type Route } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresPlatform } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createTestDatabase } from '../_database.ts'
import { buildRequest } from '../api/_api.ts'

// The rate of a host's own routes beside the built-in operations, without a port, in turns A, B, B, A: a create that does the same work,
// with the same statements, on PostgreSQL; a list on the store in memory, because a built-in list shares its statement with other requests.

const ROUNDS = 5
const TURN_MS = 1500
const AT_ONCE = 32

const Client = v.object({ id: v.string(), business: v.object({ id: v.string(), name: v.string() }) })
const about = { tag: 'Own', idempotent: false, method: 'POST' } as const

const createOwn: Route = defineRoute({
  ...about,
  path: '/own-clients',
  operationId: 'createOwn',
  summary: 'Create',
  scope: 'clients:write',
  body: v.object({ name: v.string(), key: v.string() }),
  response: v.object({ data: Client }),
  async handle({ organizationId, input }) {
    const { name, key } = input.body
    return { data: await platform.clients.create(organizationId, { name, idempotencyKey: key }) }
  },
})
const listOwn: Route = defineRoute({
  ...about,
  method: 'GET',
  idempotent: undefined,
  path: '/own-clients',
  operationId: 'listOwn',
  summary: 'List',
  scope: 'clients:read',
  response: v.object({ data: v.array(Client) }),
  async handle({ organizationId }) {
    return { data: [...(await inMemory.clients.list(organizationId, { limit: 1 })).data] }
  },
})

const service = defineService({ routes: [createOwn, listOwn] })
const database = await createTestDatabase()
const store = createPostgresStore(database.url, { service })
const platform: PostgresPlatform = createPlatform(store)
const limit = { perSecond: 100_000, burst: 1_000_000 }
const memory = createMemoryStore({ service })
const inMemory = createPlatform(memory)
const rateLimit = { key: limit, organization: limit }
const api = createBusinessApi(store, { rateLimit })
const memoryApi = createBusinessApi(memory, { rateLimit })
const newKey = { name: 'Load', scopes: ['clients:read', 'clients:write'] } as const
const { key } = await createDeveloperSettings(store).apiKeys.create('org_1', newKey)
const { key: memoryKey } = await createDeveloperSettings(memory).apiKeys.create('org_1', newKey)
let made = 0

const get = (path: string) => async () => check(await memoryApi.fetch(buildRequest(path, { key: memoryKey })))
const WORK = {
  list: [get('/api/v1/clients?limit=1'), get('/api/v1/own-clients')],
  create: [
    async () => {
      const headers = { 'Idempotency-Key': `key-${made++}` }
      check(
        await api.fetch(buildRequest('/api/v1/clients', { key, headers, json: { name: 'Atlas Ceramics' } })),
      )
    },
    async () => {
      const json = { name: 'Atlas Ceramics', key: `key-${made++}` }
      check(await api.fetch(buildRequest('/api/v1/own-clients', { key, json })))
    },
  ],
} as const

function check({ status }: Response): void {
  if (status !== 200) throw new Error(`The answer was ${status}`)
}

/** Requests a second. */
async function turn(work: () => Promise<void>): Promise<number> {
  const endsAt = performance.now() + TURN_MS
  let count = 0
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (; performance.now() < endsAt; count++) await work()
    }),
  )
  return (count * 1000) / TURN_MS
}

await inMemory.clients.create('org_1', { name: 'Atlas Ceramics' })
for (const [name, [builtIn, own]] of Object.entries(WORK)) {
  const ratios: number[] = []
  for (let round = 0; round <= ROUNDS; round++) {
    const [a, b, c, d] = [await turn(builtIn), await turn(own), await turn(own), await turn(builtIn)]
    // The first round warms up.
    if (round > 0) ratios.push((b + c) / (a + d))
    if (round === ROUNDS)
      console.log(`${name}: built-in ${Math.round((a + d) / 2)}/s, own ${Math.round((b + c) / 2)}/s`)
  }
  ratios.sort((one, other) => one - other)
  console.log(`${name}: own / built-in ${ratios.map((ratio) => ratio.toFixed(2)).join(' ')}`)
}
await store.close()
await database.drop()
