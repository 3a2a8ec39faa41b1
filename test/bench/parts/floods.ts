import { generateApiKey } from '../../../lib/access/api-keys.ts'
import { type LoadKind, measure, startLoad, startServers } from '../loading.ts'
import type { Part } from './part.ts'

interface Flood {
  readonly statuses: readonly [refusal: string, ...others: string[]]
  readonly kind: LoadKind
}

const INVENTED_KEYS = 5000
/** Of the other organization. The flood's process shares the processors with the server here, unlike on a real network. */
const STEADY = { perSecond: 50, connections: 16 }

/** Floods of refused requests: the rate of the answers, and the lists of other organizations beside. */
export const floods: Part = async ({ options, database, keys, collector, say }) => {
  const { seconds, rounds, connections } = options
  const list = { connections, method: 'GET', path: '/api/v1/clients' } as const
  const invented = Array.from({ length: INVENTED_KEYS }, () => generateApiKey('bapi', 0))
  const kinds: readonly Flood[] = [
    { statuses: ['401'], kind: { ...list, keys: invented } },
    { statuses: ['429', '200'], kind: { ...list, keys: [keys.flooding] } },
  ]
  const steady = { ...list, ...STEADY, keys: keys.many, seconds }
  const [load, other] = [await startLoad(), await startLoad()]
  const [server] = await startServers(database.url, ['ours'])
  if (!server) throw new Error('Cannot measure floods: the server has not started')

  await measure(load, server, { ...list, keys: keys.many, seconds: 1 })
  for (let round = 1; round <= rounds; round++) {
    const ofOne = { ...list, path: '/api/v1/clients?limit=1', keys: [keys.one], seconds }
    const one = await measure(load, server, ofOne)
    collector.add('list of 1, one key', 'ours', withoutCount(one))
    const quiet = await measure(other, server, steady)
    collector.add('list of 50 without a flood', 'ours', withoutCount(quiet))
    for (const { statuses, kind } of kinds) {
      const alone = await measure(load, server, { ...kind, seconds }, statuses)
      collector.add(`${statuses[0]} flood`, 'ours', withoutCount(alone))
      const [, beside] = await Promise.all([
        measure(load, server, { ...kind, seconds: seconds + 1 }, statuses),
        measure(other, server, steady),
      ])
      collector.add(`list of 50 beside a ${statuses[0]} flood`, 'ours', withoutCount(beside))
    }
    say(`floods: round ${round} of ${rounds}`)
  }
}

function withoutCount<T extends { readonly count: number }>({ count, ...sample }: T): Omit<T, 'count'> {
  return sample
}
