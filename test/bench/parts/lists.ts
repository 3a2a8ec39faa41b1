import { type LoadKind, measure, startLoad, startServers } from '../loading.ts'
import type { Part } from './part.ts'

/** Lists of 50 and of 1, beside servers written by hand. */
export const lists: Part = async ({ options, database, keys, collector, say }) => {
  const { connections } = options
  const works: Readonly<Record<string, LoadKind>> = {
    'list of 50, one key': { connections, method: 'GET', path: '/api/v1/clients', keys: [keys.one] },
    'list of 50, 1,000 organizations': {
      connections,
      method: 'GET',
      path: '/api/v1/clients',
      keys: keys.many,
    },
    'list of 1, one key': {
      connections,
      method: 'GET',
      path: '/api/v1/clients?limit=1',
      keys: [keys.one],
    },
  }
  const [load, servers] = [await startLoad(), await startServers(database.url)]
  for (const server of servers) {
    for (const kind of Object.values(works)) await measure(load, server, { ...kind, seconds: 1 })
  }
  for (let round = 1; round <= options.rounds; round++) {
    for (const [work, kind] of Object.entries(works)) {
      for (const server of servers) {
        const { count, ...sample } = await measure(load, server, { ...kind, seconds: options.seconds })
        collector.add(work, server.subject, sample)
      }
    }
    say(`lists: round ${round} of ${options.rounds}`)
  }
}
