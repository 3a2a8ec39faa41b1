import type { RetentionState } from '../../postgres/retention.ts'
import type { Inspector, RecordCounts } from '../../postgres/schema/inspector.ts'
import { describeRenamed, type RenamedMigration, type SchemaState } from '../../postgres/schema/migrations.ts'
import type { QueueCounts } from '../../webhooks/queue-counts.ts'
import { type Command, defineCommand } from '../command.ts'
import { withInspector } from '../database.ts'
import { formatDuration } from '../durations.ts'
import { formatBounded, formatCount } from '../progress.ts'
import { formatDetails } from '../table.ts'

/** Shows the current state without judging it. For that, see doctor.ts. */
export const status: Command = defineCommand({
  name: 'status',
  summary: 'shows the state of the schema and the backlog',
  about: 'Counts over all organizations, up to 10,000 each; 10001 in JSON means more.',
  onShards: 'parallel',
  flags: {},
  examples: {
    'at a glance': 'business-api-kit status',
    'for a metric': 'business-api-kit status --json | jq .backlog.oldestDueMs',
  },
  async run(_, session) {
    const now = await withInspector(session.databaseUrl(), readStatus)
    await session.print(now, () => describeStatus(now, session.width()))
  },
})

interface Status {
  readonly schema: {
    readonly current: number
    readonly latest: number
    /** File names. */
    readonly pending: readonly string[]
    /** Migrations applied by a newer version. */
    readonly newer: readonly string[]
    /** Migrations applied by a version that numbered them differently. */
    readonly renamed: readonly RenamedMigration[]
  }
  /** `null` if this version can't read the schema. */
  readonly backlog: QueueCounts | null
  readonly retention: RetentionState | null
  readonly endpoints: RecordCounts['endpoints'] | null
  readonly apiKeys: RecordCounts['apiKeys'] | null
  readonly recoverable: number | null
}

async function readStatus(inspector: Inspector): Promise<Status> {
  const state = await inspector.schema()
  const schema = {
    current: state.current,
    latest: state.latest,
    pending: state.pending.map(({ name }) => name),
    newer: state.newer.map(({ name }) => name),
    renamed: state.renamed,
  }
  if (!isReadable(state)) {
    return { schema, backlog: null, retention: null, endpoints: null, apiKeys: null, recoverable: null }
  }
  const [backlog, retention] = [await inspector.backlog(), await inspector.retention()]
  return { schema, backlog, retention, ...(await inspector.counts()) }
}

/** Returns `true` if this version's statements work with the schema. */
export function isReadable({ pending, newer, renamed }: SchemaState): boolean {
  return pending.length + renamed.length === 0 && !newer.some(({ breaking }) => breaking)
}

function describeStatus(status: Status, width: number): string {
  const { schema, backlog, retention, endpoints, apiKeys, recoverable } = status
  const details = [
    ['Schema', describeSchema(schema)],
    ['Due', backlog && describeBacklog(backlog)],
    ['Sending', backlog && formatBounded(backlog.sending)],
    ['Backing off', backlog && formatBounded(backlog.backingOff)],
    ['Paused', backlog && formatBounded(backlog.paused)],
    ['Old events', retention && describeRetention(retention)],
    ['Failed or skipped', recoverable === null ? null : formatBounded(recoverable)],
    ['Endpoints', endpoints && describeCounts(endpoints)],
    ['API keys', apiKeys && describeCounts(apiKeys)],
  ] as const
  return formatDetails(details, width)
}

function describeSchema({ current, latest, pending, newer, renamed }: Status['schema']): string {
  const [first] = renamed
  if (first) return `${current}; ${describeRenamed(first)}`
  if (newer.length > 0) return `${current}, made by a newer version; this one knows ${latest}`
  if (pending.length === 0) return `${current}, up to date`
  return current === 0
    ? 'not migrated yet; run: business-api-kit migrate'
    : `${current}; pending: ${pending.join(', ')}`
}

function describeBacklog({ due, oldestDueMs }: QueueCounts): string {
  return due === 0 ? 'nothing' : `${formatBounded(due)}, the oldest for ${formatDuration(oldestDueMs)}`
}

function describeRetention({ retentionMs, purgedAgoMs, lagMs }: RetentionState): string {
  if (lagMs === null) return 'not known'
  if (retentionMs === null) return 'kept forever'
  const behind = lagMs === 0 ? '' : `, ${formatDuration(lagMs)} behind`
  const last = purgedAgoMs === null ? 'not yet' : `${formatDuration(purgedAgoMs)} ago`
  return `purged after ${formatDuration(retentionMs)}${behind}; last ${last}`
}

function describeCounts(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${formatCount(count)} ${name}`)
    .join(', ')
}
