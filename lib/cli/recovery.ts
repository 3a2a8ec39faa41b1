import { RECOVERABLE, type RecoveryFilter } from '../settings/deliveries.ts'
import type { DeveloperSettings } from '../settings/developer-settings.ts'
import { type Command, defineCommand } from './command.ts'
import { actor, EXAMPLE_ULID, organization } from './common-flags.ts'
import { withInspector, withSettings } from './database.ts'
import { FILTER_FLAGS, readFilter } from './delivery-filter.ts'
import { Failure } from './failure.ts'
import { formatCount, type Progress } from './progress.ts'
import type { Session } from './session.ts'

// Sending again what has ended.

/** Has one delivery sent again. */
export const redeliver: Command = defineCommand({
  name: 'redeliver',
  summary: 'has a delivery sent again now, once it has ended',
  about:
    'However it ended. The event keeps its id, and a new round of attempts begins. A running business-api deliver makes them.',
  argument: 'ID',
  flags: { organization, actor },
  examples: [
    {
      purpose: 'its id is in deliveries list',
      line: `business-api deliveries redeliver dlv_${EXAMPLE_ULID} --organization org_42`,
    },
  ],
  async run({ organization: owner, ...acting }, session) {
    const { delivery, isSkipped } = await withSettings(session, async ({ deliveries: log, endpoints }) => {
      // First: a look that fails must not hide that something was done.
      const all = await endpoints.list(owner)
      const sent = await log.redeliver(owner, session.argument, acting)
      const endpoint = all.find(({ id }) => id === sent.endpointId)
      return { delivery: sent, isSkipped: endpoint?.state === 'disabled' }
    })
    if (isSkipped) {
      session.note(`${delivery.id}: its endpoint is disabled, so it is skipped again until that is enabled`)
    }
    await session.print(delivery, () => `${delivery.id} is ${delivery.state}\n`)
  },
})

/** Has all sent again that the filter lets through. */
export const recover: Command = defineCommand({
  name: 'recover',
  summary: 'has all that was dead-lettered or skipped sent again',
  about: `Newest first, each once. What belongs to a removed endpoint is passed over; what belongs to a disabled one is skipped
again, so enable it first. Ended halfway, it can be called again to do the rest.`,
  flags: { organization, ...FILTER_FLAGS, actor },
  examples: [
    {
      purpose: 'after an outage of a subscriber',
      line: `business-api deliveries recover --organization org_42 --endpoint we_${EXAMPLE_ULID} --since 24h`,
    },
  ],
  async run({ organization: owner, actor: who, ...given }, session) {
    const filter = readFilter(given)
    const progress = session.progress('Recovering')
    const { result, skipping } = await withSettings(session, async (settings) => {
      const concerned = await findSkipping(settings, owner, filter)
      const total = await countRecoverable(owner, filter, session, progress)
      const onProgress = (recovered: number) => progress.show(recovered, total)
      const options = { ...filter, actor: who, onProgress }
      const recovered = await settings.deliveries.recover(owner, options).finally(progress.clear)
      return { result: recovered, skipping: concerned }
    })
    if (skipping.length > 0) {
      const are = skipping.length === 1 ? 'is' : 'are'
      session.note(
        `${skipping.join(', ')} ${are} disabled: what was recovered there is skipped again until enabled`,
      )
    }
    await session.print(result, () => `Recovered ${formatCount(result.recovered)}\n`)
  },
})

/**
 * The disabled endpoints for which there is something to recover.
 *
 * @throws {@link Failure} when the organization has no such endpoint as the filter names
 */
async function findSkipping(
  { deliveries: log, endpoints }: DeveloperSettings,
  owner: string,
  filter: RecoveryFilter,
): Promise<readonly string[]> {
  const { endpointId } = filter
  const all = await endpoints.list(owner)
  if (endpointId !== undefined && !all.some(({ id }) => id === endpointId)) {
    throw new Failure('Cannot recover deliveries as the organization has no endpoint of that id')
  }
  const disabled = all.filter(({ id, state }) => state === 'disabled' && (endpointId ?? id) === id)
  const found = await Promise.all(
    disabled.map(({ id }) => log.list(owner, { ...filter, endpointId: id, states: RECOVERABLE, limit: 1 })),
  )
  return disabled.map(({ id }) => id).filter((_, index) => found[index]?.data.length)
}

/** Counting may take longer than the first part of the work: for a bar that somebody sees. */
async function countRecoverable(
  owner: string,
  { endpointId, type, since, until }: RecoveryFilter,
  session: Session,
  progress: Progress,
): Promise<number> {
  if (!progress.isShown) return 0
  const filter = {
    states: RECOVERABLE,
    ...(endpointId === undefined ? {} : { endpointId }),
    ...(type === undefined ? {} : { type }),
    ...(since === undefined ? {} : { since: new Date(since).toISOString() }),
    ...(until === undefined ? {} : { until: new Date(until).toISOString() }),
  }
  return withInspector(session.databaseUrl(), (inspector) => inspector.countDeliveries(owner, filter))
}
