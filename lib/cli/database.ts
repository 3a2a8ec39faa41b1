import { createInspector, type Inspector } from '../postgres/schema/inspector.ts'
import { refuseUnusable, type SchemaState } from '../postgres/schema/migrations.ts'
import { createPostgresStore, type PostgresStore } from '../postgres/store.ts'
import {
  createDeveloperSettings,
  type DeveloperSettings,
  type DeveloperSettingsOptions,
} from '../settings/developer-settings.ts'
import type { Installation } from '../webhooks/installation.ts'
import { Failure } from './failure.ts'
import type { Session } from './session.ts'

// Connects commands to the database. Connections are always closed.

/** Long enough for large tables, but short enough for an operator who is waiting. */
const STATEMENT_TIMEOUT_MS = 30_000

/** Calls a function with an inspector, which works with any database, even one that was never migrated. */
export async function withInspector<Result>(
  url: string,
  work: (inspector: Inspector) => Promise<Result>,
): Promise<Result> {
  const inspector = createInspector(url)
  try {
    return await work(inspector)
  } finally {
    await inspector.close()
  }
}

/** Calls a function with a store. Works behind a transaction-mode pooler, since nothing needs to be prepared. */
export async function withStore<Result>(
  session: Session,
  work: (store: PostgresStore) => Promise<Result>,
): Promise<Result> {
  const url = session.databaseUrl()
  await requireSchema(url)
  const store = createPostgresStore(url, {
    service: session.service,
    prepare: false,
    sessions: false,
    maxConnections: 2,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
  })
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

/** Reads the database's installation, or `null` if no loop has started yet. Doesn't write anything. */
export function readInstallation(session: Session): Promise<Installation | null> {
  return withInspector(session.databaseUrl(), (inspector) => inspector.installation())
}

/** Calls a function with the developer settings. */
export function withSettings<Result>(
  session: Session,
  work: (settings: DeveloperSettings<string, string>) => Promise<Result>,
  options: DeveloperSettingsOptions = {},
): Promise<Result> {
  return withStore(session, (store) => work(createDeveloperSettings(store, options)))
}

/**
 * @throws {@link Failure} if the schema doesn't match this version, because statements would fail with confusing errors
 */
export async function requireSchema(url: string): Promise<void> {
  const schema = await withInspector(url, (inspector) => inspector.schema())
  refuseUnusable(schema)
  if (schema.pending.length === 0) return
  throw new Failure(`Cannot use this database: ${describePending(schema)}; run: business-api-kit migrate`)
}

/** Returns `it is not migrated yet` or the names of the pending migrations. */
export function describePending({ current, pending }: SchemaState): string {
  if (current === 0) return 'it is not migrated yet'
  const names = pending.map(({ name }) => name).join(', ')
  return pending.length === 1 ? `the migration ${names} is pending` : `the migrations ${names} are pending`
}
