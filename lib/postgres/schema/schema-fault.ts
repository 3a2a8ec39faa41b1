import type { Fragment, ISql } from 'postgres'
import { BusinessApiError, MISSING_PRIVILEGE, SCHEMA_MISSING, SCHEMA_OUTDATED } from '../../base/errors.ts'
import { rejection } from '../connection/driver-faults.ts'
import type { Statement } from '../connection/pool.ts'
import type { MigrationTexts } from './migration-texts.ts'
import {
  type AppliedMigration,
  compareMigrations,
  readMigrations,
  refuseUnusable,
  type SchemaState,
} from './migrations.ts'

// We don't notice that the schema doesn't match this version until a statement fails, because checking up front would
// cost an extra statement per call.

/** Error codes for missing objects. */
const NOT_FOUND = [
  '3F000', // invalid_schema_name
  '42P01', // undefined_table
  '42703', // undefined_column
  '42704', // undefined_object
  '42883', // undefined_function
  '42P10', // invalid_column_reference: no matching unique constraint for ON CONFLICT
]

const INSUFFICIENT_PRIVILEGE = ['42501']

/** Runs a statement that returns a single row of text columns. */
export type SendRow = (
  build: (sql: ISql, answerTag: Fragment) => Statement,
) => Promise<readonly (string | null)[]>

/** Explains a PostgreSQL error by the schema's state or the data being written, or returns it unchanged. */
export type ExplainError = (error: unknown) => Promise<unknown>

/** How long the schema's state is cached, in ms. Kept short because migrations may be applied at any time. */
const STATE_MS = 1000

/**
 * Creates a function that explains errors by the schema's state. Statements that fail together read the state only
 * once.
 *
 * @param send must not explain its own errors
 * @param migrations defaults to this package's migrations
 */
export function createSchemaFaults(send: SendRow, migrations?: MigrationTexts): ExplainError {
  let state: Promise<SchemaState> | undefined
  let readAt = Number.NEGATIVE_INFINITY

  function readState(): Promise<SchemaState> {
    if (state === undefined || performance.now() - readAt > STATE_MS) {
      readAt = performance.now()
      state = readSchemaState(send, migrations)
    }
    return state
  }

  return async (error) => {
    const rejected = rejection(error)
    if (rejected !== null) return rejected
    if (hasCode(error, INSUFFICIENT_PRIVILEGE)) return denied(error)
    if (!hasCode(error, NOT_FOUND)) return error
    // Keep the original error if we can't read the state.
    const schema = await readState().catch(() => null)
    return (schema && explain(schema, error)) ?? error
  }
}

function denied(cause: Error): BusinessApiError {
  const message = `Cannot run a statement because of ${cause.message}: 'business-api-kit grants' has the privileges of each part`
  return new BusinessApiError(MISSING_PRIVILEGE, message, { cause })
}

function hasCode(error: unknown, codes: readonly string[]): error is Error {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code))
}

const ADVICE = "run 'business-api-kit migrate', or call migrate() of business-api-kit/postgres, and try again"

function explain(schema: SchemaState, cause: unknown): Error | undefined {
  try {
    refuseUnusable(schema)
  } catch (error) {
    return Object.assign(error instanceof Error ? error : new Error(String(error)), { cause })
  }
  const [first] = schema.pending
  if (first === undefined) return undefined
  if (schema.current === 0) {
    const message = `Cannot use this database because it was never migrated: ${ADVICE}`
    return new BusinessApiError(SCHEMA_MISSING, message, { cause })
  }
  const which = schema.pending.length === 1 ? `'${first.name}' is` : `'${first.name}' and later ones are`
  return new BusinessApiError(
    SCHEMA_OUTDATED,
    `Cannot use this database because the migration ${which} pending: ${ADVICE}`,
    { cause },
  )
}

/** Reads the migrations' state, in two statements because PostgreSQL rejects one that uses a missing table. */
export async function readSchemaState(send: SendRow, migrations?: MigrationTexts): Promise<SchemaState> {
  return compareMigrations(await readApplied(send), await readMigrations(migrations))
}

async function readApplied(send: SendRow): Promise<AppliedMigration[]> {
  const [table] = await send(
    (sql, answerTag) => sql`select pg_catalog.to_regclass('business_api.migrations')::text, ${answerTag}`,
  )
  if (table === null) return []
  const [applied] = await send(
    (sql, answerTag) => sql`
      select coalesce(pg_catalog.json_agg(item), '[]')::text, ${answerTag} from (
        select id, name, breaking from business_api.migrations order by id
      ) as item`,
  )
  return JSON.parse(applied ?? '[]') as AppliedMigration[]
}
