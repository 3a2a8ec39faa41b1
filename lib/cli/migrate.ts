import type { SchemaState } from '../postgres/inspector.ts'
import { migrate } from '../postgres/migrate.ts'
import { readMigrations, refuseGap, refuseNewerSchema, writeMigrationScript } from '../postgres/migrations.ts'
import { type Command, defineCommand } from './command.ts'
import { withInspector } from './database.ts'
import { UsageError } from './failure.ts'
import { toggle } from './flags.ts'
import type { Session } from './session.ts'

/** Brings the schema up to date. */
export const migrateCommand: Command = defineCommand({
  name: 'migrate',
  summary: 'makes the schema business_api, or brings it up to date',
  about: `All pending migrations are applied in one transaction: a failing one leaves nothing behind. Any number of processes may
call it at once.`,
  flags: {
    dryRun: toggle('only say what would be applied'),
    print: toggle(
      'print the SQL instead, as a script for psql; of all migrations where no database is named',
    ),
  },
  examples: [
    { purpose: 'as a step of every deployment', line: 'business-api migrate' },
    { purpose: 'what would it do?', line: 'business-api migrate --dry-run' },
    {
      purpose: 'for an administrator to read, and to apply by hand',
      line: 'business-api migrate --print > business-api.sql && psql -v ON_ERROR_STOP=1 -f business-api.sql "$DATABASE_URL"',
    },
  ],
  async run({ dryRun, print }, session) {
    if (dryRun && print) throw new UsageError('Give one of --dry-run and --print')
    if (print) return printScript(session)
    if (dryRun) return printPending(session)
    // The look beforehand has a short deadline where there is no database; the work itself may wait for others.
    await readSchema(session)
    const report = await migrate(session.databaseUrl())
    await session.print(report, () => describeNames('Applied', report.applied, report.current))
  },
})

/** @throws `BusinessApiError` with code `schema_too_new`, `Error` for a schema with a gap in its migrations */
async function readSchema(session: Session): Promise<SchemaState> {
  const schema = await withInspector(session.databaseUrl(), (inspector) => inspector.schema())
  refuseNewerSchema(schema.newer, schema.latest)
  refuseGap(schema.pending, schema.current)
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
  await session.print({ data }, () => (data.length === 0 ? '' : writeMigrationScript(pending, current === 0)))
}
