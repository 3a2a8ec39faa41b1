import { type Logger, mutedLogger } from '../../base/log.ts'
import { visible } from '../../base/visible-text.ts'
import { writeRegistration } from '../../postgres/schema/event-types.ts'
import { migrate } from '../../postgres/schema/migrate.ts'
import {
  readMigrations,
  refuseUnusable,
  type SchemaState,
  writeMigrationScript,
} from '../../postgres/schema/migrations.ts'
import { type Command, defineCommand } from '../command.ts'
import { withInspector } from '../database.ts'
import { parseDuration } from '../durations.ts'
import { UsageError } from '../failure.ts'
import { parsed, parseWhole, toggle } from '../flags.ts'
import type { Session } from '../session.ts'

/** Migrates the schema to this version. */
export const migrateCommand: Command = defineCommand({
  name: 'migrate',
  summary: 'creates the schema business_api, or brings it up to date',
  about: `Each pending migration is a transaction, so a failed one leaves no trace. Any number of processes can migrate at once. A migration waits up to a second for a lock, then lets other sessions through and tries again, and says so on stderr. With --service, registers the service's own event types for business_api.publish_event.`,
  onShards: 'parallel',
  flags: {
    maxEventBytes: parsed(
      'N',
      'greatest size of an event, 65536 to 4194304 bytes, stored in the database; a new one has 262144',
      parseWhole,
    ),
    timeout: parsed(
      'DURATION',
      'how long to wait for locks and another migration; default: 5m',
      parseDuration,
    ),
    dryRun: toggle('only show what would be applied'),
    print: toggle('print the SQL as a script for psql; of all migrations if no database is given'),
  },
  examples: {
    'as a step of every deployment': 'business-api-kit migrate',
    'what would it do?': 'business-api-kit migrate --dry-run',
    'for an administrator to read, and to apply by hand':
      'business-api-kit migrate --print > business-api-kit.sql && psql -v ON_ERROR_STOP=1 -f business-api-kit.sql "$DATABASE_URL"',
  },
  async run({ dryRun, print, maxEventBytes, timeout }, session) {
    if (dryRun && print) throw new UsageError('Pass either --dry-run or --print')
    if (print && session.shards.size > 0)
      throw new UsageError('Name one database for --print with --database-url')
    if (print) return printScript(session)
    if (dryRun) return printPending(session)
    // If there's no database, reading the state times out quickly. Migrating may have to wait for other sessions.
    await readSchema(session)
    const report = await migrate(session.databaseUrl(), {
      service: session.service,
      maxEventBytes,
      timeoutMs: timeout,
      logger: notesOf(session),
    })
    await session.print(report, () => {
      const registered = (report.events ?? []).map((type) => `Registered ${type}\n`).join('')
      return describeNames('Applied', report.applied, report.current) + registered
    })
  },
})

/** Writes warnings to stderr, even with --json, because it could otherwise look as if the command hangs. */
function notesOf({ terminal }: Session): Logger {
  return { ...mutedLogger, warn: (_, message) => terminal.stderr.write(`${visible(message)}\n`) }
}

/** @throws the same errors as {@link refuseUnusable} */
async function readSchema(session: Session): Promise<SchemaState> {
  const schema = await withInspector(session.databaseUrl(), (inspector) => inspector.schema())
  refuseUnusable(schema)
  return schema
}

async function printPending(session: Session): Promise<void> {
  const { current, pending } = await readSchema(session)
  const names = pending.map(({ name }) => name)
  await session.print({ pending: names, current }, () => describeNames('Pending', names, current))
}

function describeNames(action: string, names: readonly string[], current: number): string {
  if (names.length === 0) return `Nothing to do: the schema is up to date (${current})\n`
  return names.map((name) => `${action} ${name}\n`).join('')
}

async function printScript(session: Session): Promise<void> {
  const { current, pending } = session.hasDatabase
    ? await readSchema(session)
    : { current: 0, pending: await readMigrations() }
  const data = pending.map(({ id, name, breaking, text }) => ({ id, name, breaking, sql: text }))
  await session.print({ data }, () => {
    const script = data.length === 0 ? '' : writeMigrationScript(pending, current === 0)
    return script + writeRegistration(session.service)
  })
}
