import { setTimeout as sleep } from 'node:timers/promises'
import { createIds } from '../../base/ids.ts'
import type { DeliveryStore, PurgeEntry, PurgeReport } from '../../webhooks/deliveries.ts'
import { DELIVERY_COUNT_MAX } from '../../webhooks/outlook.ts'
import { type Command, defineCommand } from '../command.ts'
import { actor, RECENT_FLAGS, refuseRecent } from '../common-flags.ts'
import { CONFIRMATION_FLAGS, confirm } from '../confirmation.ts'
import { ofPurging } from '../consequences.ts'
import { withInspector, withStore } from '../database.ts'
import { formatDuration, parseDuration } from '../durations.ts'
import { parsed, required } from '../flags.ts'
import { formatCount, type Progress } from '../progress.ts'

/** Maximum number of rows of each kind per statement. Keeps other statements from having to wait long. */
const PURGE_LIMIT = 1000

/** Erases old events. */
export const purge: Command = defineCommand({
  name: 'purge',
  summary: "deletes all organizations' old events with their deliveries and attempts",
  about: `Failed deliveries are deleted too, and can't be recovered afterwards. Events with unfinished deliveries stay at any age. Expired idempotency keys are deleted as well. Works in small parts, so others aren't blocked; each organization that loses events gets an audit entry.
A running business-api-kit deliver does all this by itself: see its --retention.`,
  onShards: 'in turn',
  flags: {
    olderThan: required(parsed('DURATION', 'how old, at least 1d: 30d', parseDuration)),
    ...RECENT_FLAGS,
    ...CONFIRMATION_FLAGS,
    actor,
  },
  examples: {
    'how much would be deleted?': 'business-api-kit purge --older-than 30d --dry-run',
    'from cron, without confirmation': 'business-api-kit purge --older-than 30d --yes',
  },
  async run({ olderThan, allowRecent, actor: who, ...asking }, session) {
    refuseRecent(olderThan, allowRecent, '--older-than')
    const url = session.databaseUrl()
    const report = await withStore(session, async (store) => {
      const goesOn = await confirm(session, asking, async () => {
        const preview = await withInspector(url, (inspector) =>
          inspector.previewPurge(olderThan, DELIVERY_COUNT_MAX),
        )
        return ofPurging(preview, formatDuration(olderThan))
      })
      if (!goesOn) return null
      const progress = session.progress('Purging')
      const entry = makeEntry(who, olderThan)
      return purgeAll(store.deliveries, olderThan, entry, progress).finally(progress.clear)
    })
    if (report === null) return
    const { events, idempotencyKeys } = report
    await session.print(report, () => {
      return `Erased ${formatCount(events)} events and ${formatCount(idempotencyKeys)} expired idempotency keys\n`
    })
  },
})

/** Every organization that loses events gets the same entry. */
function makeEntry(who: string, olderThanMs: number): PurgeEntry {
  return { id: createIds()('aud'), actor: who, action: 'events.purged', details: { olderThanMs } }
}

/** Pauses after each batch for as long as the batch took, which leaves room for deliveries. */
async function purgeAll(
  deliveries: Pick<DeliveryStore, 'purge'>,
  eventsAfterMs: number,
  entry: PurgeEntry,
  progress: Progress,
): Promise<Omit<PurgeReport, 'next'>> {
  const sum = { events: 0, idempotencyKeys: 0 }
  let cursor: string | null = null
  do {
    const begunAt = performance.now()
    const part: PurgeReport = await deliveries.purge({ eventsAfterMs, limit: PURGE_LIMIT, cursor, entry })
    sum.events += part.events
    sum.idempotencyKeys += part.idempotencyKeys
    progress.show(`${formatCount(sum.events)} events`)
    cursor = part.next
    if (cursor !== null) await sleep(performance.now() - begunAt)
  } while (cursor !== null)
  return sum
}
