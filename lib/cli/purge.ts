import type { DeliveryStore, PurgeReport } from '../deliveries.ts'
import { type Command, defineCommand } from './command.ts'
import { withInspector, withStore } from './database.ts'
import { parseDuration } from './durations.ts'
import { UsageError } from './failure.ts'
import { parsed, required } from './flags.ts'
import { formatCount, type Progress } from './progress.ts'

/** Rows of each kind that one statement forgets at most: nobody else waits for it for long. */
const PURGE_LIMIT = 1000

/** Forgets what is old. */
export const purge: Command = defineCommand({
  name: 'purge',
  summary: 'forgets events with their deliveries and attempts once they are old',
  about: `In small parts, until nothing is left: others can work meanwhile. What is still to be sent stays, whatever its age.
Idempotency keys whose window is over go too. A running business-api deliver does all this by itself: see its --retention.`,
  flags: { olderThan: required(parsed('DURATION', 'how old: 30d', parseAge)) },
  examples: [{ purpose: 'what is older than 30 days', line: 'business-api purge --older-than 30d' }],
  async run({ olderThan }, session) {
    const progress = session.progress('Purging')
    const report = await withStore(session, async (store) => {
      const total = progress.isShown
        ? await withInspector(session.databaseUrl(), (inspector) => inspector.countPurgeable(olderThan))
        : 0
      return purgeAll(store.deliveries, olderThan, total, progress).finally(progress.clear)
    })
    const { events, idempotencyKeys } = report
    await session.print(report, () => {
      return `Forgot ${formatCount(events)} events and ${formatCount(idempotencyKeys)} idempotency keys\n`
    })
  },
})

/** Of nothing by mistake: `0` would be everything that has been sent. @throws `UsageError` */
function parseAge(text: string, flag: string): number {
  const ms = parseDuration(text, flag)
  if (ms > 0) return ms
  throw new UsageError(`Cannot use ${flag} as it must be longer than 0`)
}

async function purgeAll(
  deliveries: Pick<DeliveryStore, 'purge'>,
  eventsAfterMs: number,
  total: number,
  progress: Progress,
): Promise<PurgeReport> {
  const sum = { events: 0, idempotencyKeys: 0 }
  let isDone = false
  while (!isDone) {
    const { events, idempotencyKeys } = await deliveries.purge({ eventsAfterMs, limit: PURGE_LIMIT })
    sum.events += events
    sum.idempotencyKeys += idempotencyKeys
    progress.show(sum.events + sum.idempotencyKeys, total)
    isDone = events < PURGE_LIMIT && idempotencyKeys < PURGE_LIMIT
  }
  return sum
}
