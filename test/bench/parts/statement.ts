import { captureStatement } from '../captured-statement.ts'
import { type LoadKind, measure, startLoad, startServers } from '../loading.ts'
import { openStatementRunner } from '../statement-runner.ts'
import type { Part } from './part.ts'

/** The list over HTTP beside the statement of the list alone, with the same database. */
export const statement: Part = async ({ options, database, keys, collector, say }) => {
  const { connections } = options
  const kind: LoadKind = { connections, method: 'GET', path: '/api/v1/clients', keys: [keys.one] }
  const [load, [server]] = [await startLoad(), await startServers(database.url, ['ours'])]
  if (!server) throw new Error('Cannot measure the list statement: the server has not started')
  await measure(load, server, { ...kind, seconds: 1 })
  const captured = await captureStatement(database, async () => {
    await measure(load, server, { ...kind, seconds: 1 })
  })
  // The statement answers several requests, whose keys are an array.
  const [row] = await database.sql`
    select max(cardinality(value::text[])) as requests
    from unnest(${captured.values.map((value) => value ?? '')}::text[]) as value where value like '{%}'`
  const requests = Number(row?.requests ?? 1)
  const runner = await openStatementRunner(database.url, captured)
  say(`statement: with ${runner.name}, ${requests} requests in a statement`)
  for (let round = 1; round <= options.rounds; round++) {
    const { count, ...sample } = await measure(load, server, { ...kind, seconds: options.seconds })
    collector.add('list of 50, one key', 'ours', sample)
    const alone = await runner.run(options.seconds)
    collector.add('list statement', 'alone', { ...alone, perSecond: (alone.perSecond ?? 0) * requests })
    say(`statement: round ${round} of ${options.rounds}`)
  }
}
