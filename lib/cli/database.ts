import { createInspector, type Inspector, type SchemaState } from '../postgres/inspector.ts'
import { refuseGap, refuseNewerSchema } from '../postgres/migrations.ts'
import { createPostgresStore, type PostgresStore } from '../postgres/store.ts'
import {
  createDeveloperSettings,
  type DeveloperSettings,
  type DeveloperSettingsOptions,
} from '../settings/developer-settings.ts'
import { Failure } from './failure.ts'
import type { Session } from './session.ts'

// The ways from a command to its database. Each opens it, and closes it whatever happens.

/** An operator waits for it, and a table may be large. */
const STATEMENT_TIMEOUT_MS = 30_000

/** For what looks at the database as a whole, also at one that is not migrated. */
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

/** For what works on the records. Through a transaction-mode pooler as well, as so few statements need not be prepared. */
export async function withStore<Result>(
  session: Session,
  work: (store: PostgresStore) => Promise<Result>,
): Promise<Result> {
  const url = session.databaseUrl()
  await requireSchema(url)
  const store = createPostgresStore(url, {
    prepare: false,
    maxConnections: 2,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
  })
  try {
    return await work(store)
  } finally {
    await store.close()
  }
}

/** For what an administrator of an organization does. */
export function withSettings<Result>(
  session: Session,
  work: (settings: DeveloperSettings) => Promise<Result>,
  options: DeveloperSettingsOptions = {},
): Promise<Result> {
  return withStore(session, (store) => work(createDeveloperSettings(store, options)))
}

/** @throws {@link Failure} where this version cannot work as the schema is, before a statement fails that nobody understands */
export async function requireSchema(url: string): Promise<void> {
  const schema = await withInspector(url, (inspector) => inspector.schema())
  refuseNewerSchema(schema.newer, schema.latest)
  refuseGap(schema.pending, schema.current)
  if (schema.pending.length === 0) return
  throw new Failure(`Cannot use this database: ${describePending(schema)}; run: business-api migrate`)
}

/** `it is not migrated yet`, or which migrations are pending. */
export function describePending({ current, pending }: SchemaState): string {
  if (current === 0) return 'it is not migrated yet'
  const names = pending.map(({ name }) => name).join(', ')
  return pending.length === 1 ? `the migration ${names} is pending` : `the migrations ${names} are pending`
}
