import { withoutUndefined } from '../../base/host-input.ts'
import { BACKFILL_TYPES } from '../../resources/backfill.ts'
import type { BackfillPart, BackfillPreview } from '../../settings/backfill.ts'
import type { DeveloperSettings } from '../../settings/developer-settings.ts'
import { type Command, defineCommand } from '../command.ts'
import { actor, EXAMPLE_ULID, organization } from '../common-flags.ts'
import { CONFIRMATION_FLAGS, type Consequence, confirm, countOf } from '../confirmation.ts'
import { withSettings } from '../database.ts'
import { Failure } from '../failure.ts'
import { choices, parsed, parseWhole } from '../flags.ts'
import { formatCount } from '../progress.ts'
import type { Session } from '../session.ts'
import { listenForSignals } from '../stop-signals.ts'

/** Sends events to an endpoint for records that existed before it was registered. */
export const backfill: Command = defineCommand({
  name: 'backfill',
  summary: 'sends an endpoint an event for each existing record',
  about: `Sends one event for each business, client, lead and proposal of the organization, with the current record, to this endpoint only. A running business-api-kit deliver sends them after the organization's other deliveries. Run the command again after an interruption: nothing is sent twice.`,
  argument: 'ID',
  flags: {
    organization,
    types: choices('t,…', 'the types to send; default: all that the endpoint wants', BACKFILL_TYPES),
    limit: parsed('N', 'maximum number of records to read; default: all', parseWhole),
    ...CONFIRMATION_FLAGS,
    actor,
  },
  examples: {
    'how many events would be sent?': `business-api-kit endpoints backfill we_${EXAMPLE_ULID} --organization org_42 --dry-run`,
    'all clients, without confirmation': `business-api-kit endpoints backfill we_${EXAMPLE_ULID} --organization org_42 --types client.created --yes`,
  },
  async run({ organization: owner, types, limit, actor: who, ...asking }, session) {
    const selection = withoutUndefined({ types })
    const done = await withSettings(session, async (settings) => {
      const preview = () => settings.endpoints.previewBackfill(owner, session.argument, selection)
      if (!(await confirm(session, asking, async () => ofBackfilling(await preview())))) return null
      const options = withoutUndefined({ ...selection, limit, actor: who })
      return backfillAll(settings, owner, options, session)
    })
    if (done === null) return
    await session.print(done, () => `${describe(done)}\n`)
    if (done.next !== null && limit === undefined) {
      throw new Failure('The backfill was stopped: run the same command to continue')
    }
  },
})

function describe({ events, examined }: BackfillPart): string {
  const others = examined - events
  const left = others === 0 ? '' : `; ${formatCount(others)} had an event for the endpoint already`
  return `Made ${countOf(events, 'event', 'events', false)} of ${countOf(examined, 'record', 'records', false)}${left}`
}

function ofBackfilling({ endpoint, records }: BackfillPreview): Consequence {
  const counts = Object.entries(records)
  const parts = counts.map(([type, count]) => `${countOf(count, 'event', 'events')} ${type}`)
  const text =
    parts.length === 0 ? 'no event, because the endpoint wants none of the types' : parts.join(', ')
  return {
    text: `Sends to ${endpoint.id} (${endpoint.url}) at most ${text}; records with an event for the endpoint are left out.`,
    facts: { id: endpoint.id, url: endpoint.url, records },
  }
}

async function backfillAll(
  { endpoints }: DeveloperSettings<string, string>,
  owner: string,
  options: Pick<
    Parameters<DeveloperSettings<string, string>['endpoints']['backfill']>[2] & object,
    'types' | 'limit' | 'actor'
  >,
  session: Session,
): Promise<BackfillPart> {
  const progress = session.progress('Backfilling')
  const { stopping, end } = listenForSignals(session.terminal)
  try {
    return await endpoints.backfill(owner, session.argument, {
      ...options,
      signal: stopping.signal,
      onProgress: ({ examined }) => progress.show(`${formatCount(examined)} records`),
    })
  } finally {
    progress.clear()
    end()
  }
}
