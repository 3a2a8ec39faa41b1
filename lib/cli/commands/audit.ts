import { AUDIT_ACTIONS, type AuditEntry } from '../../access/audit.ts'
import { type Command, defineCommand, type Group } from '../command.ts'
import { EXAMPLE_ULID, organization, PAGE_FLAGS, TABLE_FLAGS } from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { formatMoment, parsePast } from '../durations.ts'
import { choice, parsed, text } from '../flags.ts'
import { type Column, formatTable } from '../table.ts'

const listEntries: Command = defineCommand({
  name: 'list',
  summary: "lists the changes of an organization's settings, newest first",
  about: 'Changes by this program have the actor given by --actor, by default cli. Includes manual purges.',
  flags: {
    organization,
    subject: text('ID', 'only of this key, endpoint or delivery'),
    action: choice('ACTION', "of this action only: 'endpoint.disabled'", AUDIT_ACTIONS),
    actor: text('NAME', 'only by this actor: the whole name'),
    since: parsed('WHEN', 'made since: 24h ago, 2026-01-31, or 2026-01-31T09:00:00Z', parsePast),
    until: parsed('WHEN', 'made before', parsePast),
    ...PAGE_FLAGS,
    ...TABLE_FLAGS,
  },
  examples: {
    'the newest changes': 'business-api-kit audit list --organization org_42',
    'the changes of an endpoint': `business-api-kit audit list --organization org_42 --subject we_${EXAMPLE_ULID}`,
    'endpoints disabled within the last day':
      'business-api-kit audit list --organization org_42 --action endpoint.disabled --since 24h',
  },
  async run({ organization: owner, subject, wide, ...page }, session) {
    const query = { subjectId: subject, ...page }
    const entries = await withSettings(session, ({ audit: calls }) => calls.list(owner, query))
    await session.print(entries, () => formatTable(COLUMNS, entries.data, session.width(wide)))
    if (entries.next !== null) session.note(`More: --before ${entries.next}`)
  },
})

const COLUMNS: readonly Column<AuditEntry>[] = [
  { title: 'AT', value: ({ at }) => formatMoment(at) },
  { title: 'ACTOR', value: ({ actor }) => actor ?? '' },
  { title: 'ACTION', value: ({ action }) => action },
  { title: 'SUBJECT', value: ({ subjectId }) => subjectId },
  { title: 'DETAILS', value: ({ details }) => describeDetails(details) },
]

function describeDetails(details: AuditEntry['details']): string {
  const entries = Object.entries(details)
  return entries.map(([name, value]) => `${name}: ${describeValue(value)}`).join('; ')
}

/** Adds spaces to let long lists wrap. */
function describeValue(value: unknown): string {
  if (Array.isArray(value)) return value.map(describeValue).join(', ')
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** The audit commands. */
export const audit: Group = {
  name: 'audit',
  summary: "who changed an organization's settings",
  commands: [listEntries],
}
