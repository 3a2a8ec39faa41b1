import { readWalBytes } from '../database.ts'
import { type LoadKind, measure, startLoad, startServers } from '../loading.ts'
import type { Part } from './part.ts'

/** Creates with an idempotency key, where every event goes to an endpoint, beside servers that write the same rows. */
export const creates: Part = async ({ options, database, keys, collector, say }) => {
  const create = {
    connections: options.connections,
    method: 'POST',
    path: '/api/v1/clients',
    body: '{"name":"Atlas Ceramics","city":"Tunis"}',
  } as const
  const works: Readonly<Record<string, LoadKind>> = {
    'create, one endpoint': { ...create, keys: [keys.one] },
  }
  const [load, servers] = [await startLoad(), await startServers(database.url)]
  for (const server of servers) {
    for (const kind of Object.values(works)) await measure(load, server, { ...kind, seconds: 1 })
  }
  // As autovacuum does within a minute: a plan of a foreign key's check, made when a table was empty, would read the whole table.
  await database.sql`analyze`
  for (let round = 1; round <= options.rounds; round++) {
    for (const [work, kind] of Object.entries(works)) {
      for (const server of servers) {
        const walBefore = await readWalBytes(database.sql)
        const { count, ...sample } = await measure(load, server, { ...kind, seconds: options.seconds })
        const walBytes = ((await readWalBytes(database.sql)) - walBefore) / count
        collector.add(work, server.subject, { ...sample, walBytes })
      }
    }
    say(`creates: round ${round} of ${options.rounds}`)
  }
}
