import type { AuditEntry } from '../audit.ts'
import { type Command, defineCommand, type Group } from './command.ts'
import { EXAMPLE_ULID, organization, PAGE_FLAGS } from './common-flags.ts'
import { withSettings } from './database.ts'
import { formatMoment } from './durations.ts'
import { text } from './flags.ts'
import { type Column, formatTable } from './table.ts'

const listEntries: Command = defineCommand({
  name: 'list',
  summary: 'shows who changed what in the settings of an organization, newest first',
  about: 'What this program changes is there under its --actor, cli by default.',
  flags: {
    organization,
    subject: text('ID', 'of this key, endpoint or delivery only'),
    ...PAGE_FLAGS,
  },
  examples: [
    { purpose: 'the newest changes', line: 'business-api audit list --organization org_42' },
    {
      purpose: 'what has happened to an endpoint?',
      line: `business-api audit list --organization org_42 --subject we_${EXAMPLE_ULID}`,
    },
  ],
  async run({ organization: owner, subject, ...page }, session) {
    const query = { subjectId: subject, ...page }
    const entries = await withSettings(session, ({ audit: calls }) => calls.list(owner, query))
    await session.print(entries, () => formatTable(COLUMNS, entries.data, session.width))
    if (entries.next !== null) session.note(`More: --before ${entries.next}`)
  },
})

const COLUMNS: readonly Column<AuditEntry>[] = [
  { title: 'AT', value: ({ at }) => formatMoment(at) },
  { title: 'ACTOR', value: ({ actor }) => actor ?? '', isFlexible: true },
  { title: 'ACTION', value: ({ action }) => action, isFlexible: true },
  { title: 'SUBJECT', value: ({ subjectId }) => subjectId },
  { title: 'DETAILS', value: ({ details }) => describeDetails(details), isFlexible: true, isOptional: true },
]

function describeDetails(details: AuditEntry['details']): string {
  const entries = Object.entries(details)
  return entries.map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(', ')
}

/** Who changed what. */
export const audit: Group = {
  name: 'audit',
  summary: 'who changed what in the settings of an organization',
  commands: [listEntries],
}
