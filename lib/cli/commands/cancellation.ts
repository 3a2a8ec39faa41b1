import { createIds } from '../../base/ids.ts'
import { type Command, defineCommand } from '../command.ts'
import { actor, EXAMPLE_ULID, organization } from '../common-flags.ts'
import { CONFIRMATION_FLAGS, confirm } from '../confirmation.ts'
import { ofCancelling } from '../consequences.ts'
import { readInstallation, withSettings, withStore } from '../database.ts'
import { UsageError } from '../failure.ts'
import { toggle } from '../flags.ts'
import { formatCount } from '../progress.ts'
import type { Session } from '../session.ts'

/** Cancels pending deliveries. */
export const cancel: Command = defineCommand({
  name: 'cancel',
  summary: 'cancels a pending delivery, or all pending deliveries',
  about:
    "Works between two attempts and while the endpoint is paused. A sending delivery can't be cancelled; a cancelled one can be sent later: see business-api-kit deliveries redeliver --help. With --pending: cancels the pending deliveries of all organizations, for a restored or copied database that must not send. Each organization gets an audit entry. After an interruption, run the command again.",
  argument: '[ID]',
  onShards: ({ pending }) => (pending ? 'in turn' : null),
  flags: {
    organization: { ...organization, isRequired: false, read: ([given]: readonly string[]) => given },
    pending: toggle('all pending deliveries of all organizations'),
    ...CONFIRMATION_FLAGS,
    actor,
  },
  examples: {
    'with an id of deliveries list --state pending': `business-api-kit deliveries cancel dlv_${EXAMPLE_ULID} --organization org_42`,
    'on a copy, before its loop starts': 'business-api-kit deliveries cancel --pending',
  },
  async run({ organization: owner, pending, actor: who, ...asking }, session) {
    if (pending) {
      if (owner !== undefined) throw new UsageError(ALL_ORGANIZATIONS)
      return cancelAll(who, asking, session)
    }
    if (session.argument === '') throw new UsageError('Missing ID; or pass --pending')
    const id = organization.read(owner === undefined ? [] : [owner], '--organization', session.service)
    const delivery = await withSettings(session, ({ deliveries }) =>
      deliveries.cancel(id, session.argument, { actor: who }),
    )
    await session.print(delivery, () => `${delivery.id} is ${delivery.state}\n`)
  },
})

const ALL_ORGANIZATIONS =
  'Cannot use --pending for one organization, because it cancels the deliveries of all: leave out --organization, and unset BUSINESS_API_ORGANIZATION'

async function cancelAll(
  actor: string,
  asking: { readonly yes: boolean; readonly dryRun: boolean },
  session: Session,
): Promise<void> {
  if (session.argument !== '') throw new UsageError('Cannot use ID and --pending together')
  await withStore(session, async ({ deliveries, installation }) => {
    const goesOn = await confirm(session, asking, async () =>
      ofCancelling(await deliveries.countQueue(null), await readInstallation(session)),
    )
    if (!goesOn) return
    const progress = session.progress('Cancelling')
    let cancelled = 0
    let sending = 0
    try {
      for await (const part of installation.cancelPending({
        id: createIds()('aud'),
        actor,
        action: 'delivery.cancelled',
      })) {
        cancelled += part.cancelled
        sending += part.sending
        progress.show(`${formatCount(cancelled)} deliveries`)
      }
    } finally {
      progress.clear()
    }
    const left =
      sending === 0 ? '' : `; ${formatCount(sending)} are sending: stop the loops, and cancel again`
    await session.print({ cancelled, sending }, () => `Cancelled ${formatCount(cancelled)}${left}\n`)
  })
}
