import type { RecoveryFilter } from '../../settings/deliveries.ts'
import type { DeveloperSettings } from '../../settings/developer-settings.ts'
import { RECOVERABLE } from '../../webhooks/outlook.ts'
import { type Command, defineCommand } from '../command.ts'
import { actor, EXAMPLE_ULID, FILTER_FLAGS, organization, readDeliveryFilter } from '../common-flags.ts'
import { CONFIRMATION_FLAGS, confirm } from '../confirmation.ts'
import { ofRecovering } from '../consequences.ts'
import { withSettings } from '../database.ts'
import { Failure } from '../failure.ts'
import { formatCount } from '../progress.ts'
import type { Session } from '../session.ts'

// Commands that send deliveries again.

/** Sends a single delivery again. */
export const redeliver: Command = defineCommand({
  name: 'redeliver',
  summary: 'resends a delivery, or retries it now',
  about:
    'Any completed delivery can be resent, and one that waits for its next attempt is retried now. The event keeps its id, and a running business-api-kit deliver starts a new round of attempts.',
  argument: 'ID',
  flags: { organization, actor },
  examples: {
    'with an id of deliveries list': `business-api-kit deliveries redeliver dlv_${EXAMPLE_ULID} --organization org_42`,
  },
  async run({ organization: owner, ...acting }, session) {
    const { delivery, isSkipped } = await withSettings(session, async ({ deliveries: log, endpoints }) => {
      // Do this first. If it failed later, we couldn't report that the delivery was sent.
      const all = await endpoints.list(owner)
      const sent = await log.redeliver(owner, session.argument, acting)
      const endpoint = all.find(({ id }) => id === sent.endpointId)
      return { delivery: sent, isSkipped: endpoint?.state === 'disabled' }
    })
    if (isSkipped) {
      session.note(
        `${delivery.id} will be skipped again, because its endpoint is disabled: enable that first`,
      )
    }
    await session.print(delivery, () => `${delivery.id} is ${delivery.state}\n`)
  },
})

/** Sends many deliveries again. */
export const recover: Command = defineCommand({
  name: 'recover',
  summary: 'resends failed and skipped deliveries',
  about: `Starts with the newest. Deliveries to removed endpoints can't be resent, and deliveries to disabled endpoints are skipped again, so enable those first. After an interruption, run the command again.`,
  flags: { organization, ...FILTER_FLAGS, ...CONFIRMATION_FLAGS, actor },
  examples: {
    'after an outage of a subscriber': `business-api-kit deliveries recover --organization org_42 --endpoint we_${EXAMPLE_ULID} --since 24h`,
    'how many would it be?':
      'business-api-kit deliveries recover --organization org_42 --since 24h --dry-run',
  },
  async run({ organization: owner, actor: who, yes, dryRun, ...given }, session) {
    const filter = readDeliveryFilter(given)
    const done = await withSettings(session, async (settings) => {
      const disabled = await findDisabled(settings, owner, filter)
      const goesOn = await confirm(session, { yes, dryRun }, async () => {
        const { failed, skipped } = await settings.deliveries.countRecoverable(owner, filter)
        return ofRecovering(owner, failed, skipped, disabled)
      })
      return goesOn ? { ...(await recoverAll(settings, owner, filter, who, session)), disabled } : null
    })
    if (done === null) return
    const { recovered, disabled } = done
    if (disabled.length > 0) {
      const are = disabled.length === 1 ? 'is' : 'are'
      session.note(`${disabled.join(', ')} ${are} disabled: deliveries recovered there are skipped again`)
    }
    await session.print({ recovered }, () => `Recovered ${formatCount(recovered)}\n`)
  },
})

async function recoverAll(
  { deliveries: log }: DeveloperSettings<string, string>,
  owner: string,
  filter: RecoveryFilter<string>,
  who: string,
  session: Session,
): Promise<{ readonly recovered: number }> {
  const progress = session.progress('Recovering')
  const onProgress = (recovered: number): void => progress.show(formatCount(recovered))
  return log.recover(owner, { ...filter, actor: who, onProgress }).finally(progress.clear)
}

/**
 * Returns disabled endpoints with recoverable deliveries.
 *
 * @throws {@link Failure} if the endpoint in the filter doesn't exist
 */
async function findDisabled(
  { deliveries: log, endpoints }: DeveloperSettings<string, string>,
  owner: string,
  filter: RecoveryFilter<string>,
): Promise<readonly string[]> {
  const { endpointId } = filter
  const all = await endpoints.list(owner)
  if (endpointId !== undefined && !all.some(({ id }) => id === endpointId)) {
    throw new Failure('Cannot recover deliveries because the organization has no endpoint with this id')
  }
  const disabled = all.filter(({ id, state }) => state === 'disabled' && (endpointId ?? id) === id)
  const found = await Promise.all(
    disabled.map(({ id }) => log.list(owner, { ...filter, endpointId: id, states: RECOVERABLE, limit: 1 })),
  )
  return disabled.map(({ id }) => id).filter((_, index) => found[index]?.data.length)
}
