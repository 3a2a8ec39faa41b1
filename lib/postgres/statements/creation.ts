import type { NamedColumn } from '../../resources/columns.ts'
import type { ApiCreationOutcome, Creation, CreationOutcome } from '../../writes/creation.ts'
import type { RecordDatabase } from '../connection/database.ts'
import { type ColumnValues, insertInto, valuesOf } from './columns.ts'
import {
  type CreationValues,
  creationValues,
  defineWrite,
  published,
  type WriteParts,
  type WriteStatements,
} from './key-reservation.ts'
import type { ResultColumns } from './statement.ts'
import { write } from './write.ts'

type NewValues = CreationValues & ColumnValues
type OfKey = { readonly apiKeyId: string }

/** The statements of a creation: by the host's own code, and by an API key, which only the roles of an API may read. */
export interface CreationStatements<Column extends string> {
  readonly columns: readonly NamedColumn[]
  readonly ofHost: WriteStatements<NewValues, Column>
  readonly ofKey: WriteStatements<NewValues & OfKey, Column | 'isInForce'>
}

/** The step `key`: the API key of a write, which may have been revoked since it was judged. */
export const KEY_IN_FORCE = `key as materialized (
  select 1 as one from business_api.api_keys key
  where key.organization_id = @organizationId::text and key.id = @apiKeyId::text
    and (key.revoked_at is null or key.revoked_at > pg_catalog.clock_timestamp())
    and (key.expires_at is null or key.expires_at > pg_catalog.clock_timestamp())
)`

/**
 * Builds the statements of a creation.
 *
 * @param parts further columns of the answer, steps before the key is reserved, and their condition: see {@link defineWrite}
 */
export function defineCreation<Column extends string>(
  table: string,
  columns: readonly NamedColumn[],
  { steps: earlier = [], condition = 'true', answer }: WriteParts<Column> & { readonly condition?: string },
): CreationStatements<Column> {
  const stepsOf = (reserved: string): readonly string[] => [
    ...earlier,
    reserved,
    `record as (${insertInto(table, columns, 'reserved')})`,
    published('record'),
  ]
  return {
    columns,
    ofHost: defineWrite((reserve) => ({ steps: stepsOf(reserve({ condition })), answer })),
    ofKey: defineWrite((reserve) => ({
      steps: [
        KEY_IN_FORCE,
        ...stepsOf(reserve({ condition: `exists (select 1 from key) and ${condition}` })),
      ],
      answer: { ...answer, isInForce: '(select exists (select 1 from key))::text' },
    })),
  }
}

/** How a creation is sent, and its outcome read. */
interface CreationVerb<NewRecord, Column extends string, Refusal> {
  readonly statements: CreationStatements<Column>
  /** Gives the values of the columns. Default the fields of the record. */
  valuesOf?(record: NewRecord): ColumnValues
  /** Tells why a statement did not go on although its key is free. */
  refused?(answer: ResultColumns<Column, never>): Refusal | undefined
}

/** Builds the verb that creates a record. */
export function createVerb<
  NewRecord extends { readonly id: string },
  Column extends string = never,
  Refusal extends ApiCreationOutcome = never,
>(
  database: RecordDatabase,
  {
    statements,
    valuesOf: given = (record) => valuesOf(statements.columns, record),
    refused = () => undefined,
  }: CreationVerb<NewRecord, Column, Refusal>,
): (creation: Creation<NewRecord>) => Promise<CreationOutcome | Refusal> {
  return (creation) => {
    const { record, apiKeyId } = creation
    const values = Object.assign(creationValues(creation, record.id), given(record))
    const done = () => ({ outcome: 'created' as const })
    if (apiKeyId === undefined) return write(database, creation, statements.ofHost, values, { done, refused })
    return write(database, creation, statements.ofKey, Object.assign(values, { apiKeyId }), {
      done,
      refused,
      judged: ({ isInForce }) =>
        isInForce === 'false' ? { outcome: 'unauthenticated' as const } : undefined,
    })
  }
}
