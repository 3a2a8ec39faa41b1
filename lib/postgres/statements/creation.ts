import type { NamedColumn } from '../../resources/columns.ts'
import type { ApiCreationOutcome, Creation, CreationOutcome } from '../../writes/creation.ts'
import type { WaitLimits } from '../admission/batches.ts'
import type { RecordDatabase } from '../connection/database.ts'
import { type ColumnValues, insertInto, valuesOf } from './columns.ts'
import { type CreationStatement, createCreationBatches, defineCreationBatch } from './creation-batches.ts'
import {
  type CreationValues,
  creationValues,
  defineWrite,
  goOn,
  type KeyValues,
  type OutcomeColumn,
  published,
  reserveKey,
  unlessGoneOn,
  type WriteStatements,
} from './key-reservation.ts'
import type { ResultColumns } from './statement.ts'
import { askEach, type WriteAsks, write } from './write.ts'

type NewValues = CreationValues & ColumnValues
type OfKey = { readonly apiKeyId: string }
type KeyColumn<Column extends string> = Column | OutcomeColumn | 'isInForce'

/** The statements of a creation: by the host's own code, and by an API key, which only the roles of an API may read. */
export interface CreationStatements<Column extends string> {
  readonly columns: readonly NamedColumn[]
  readonly ofHost: WriteStatements<NewValues, Column>
  readonly ofKey: {
    readonly keyed: CreationStatement<NewValues & OfKey & KeyValues, KeyColumn<Column>>
    readonly keyless: CreationStatement<NewValues & OfKey, KeyColumn<Column>>
  }
}

/**
 * A condition: the API key of a write is active. It may have been revoked since the check. No `exists`, of which PostgreSQL would
 * make a join, planned for a table that was empty then.
 */
export const IS_IN_FORCE = `((
  select true from business_api.api_keys key
  where key.organization_id = @organizationId::text and key.id = @apiKeyId::text
    and (key.revoked_at is null or key.revoked_at > pg_catalog.clock_timestamp())
    and (key.expires_at is null or key.expires_at > pg_catalog.clock_timestamp())
) is not null)`

/**
 * Builds the statements of a creation.
 *
 * @param condition the record may be written; without steps of its own. Default: always
 * @param answer more result columns, without own steps. Default none
 */
export function defineCreation<Column extends string = never>(
  table: string,
  columns: readonly NamedColumn[],
  condition = 'true',
  answer = {} as Readonly<Record<Column, string>>,
): CreationStatements<Column> {
  const define = <Values, Answer extends string>(
    condition: string,
    answer: Readonly<Record<Answer, string>>,
  ): WriteStatements<Values, Answer> =>
    defineWrite((reserve) => ({
      steps: [
        reserve({ condition }),
        `record as (${insertInto(table, columns, 'reserved')})`,
        published('record'),
      ],
      answer,
    }))
  const ofKey = {
    table,
    columns,
    condition: `${IS_IN_FORCE} and ${condition}`,
    answer: { ...answer, isInForce: unlessGoneOn(IS_IN_FORCE) },
  }
  const one = define<NewValues & OfKey, Column | 'isInForce'>(ofKey.condition, ofKey.answer)
  return {
    columns,
    ofHost: define(condition, answer),
    ofKey: {
      keyed: { ...one.keyed, batch: defineCreationBatch(one.keyed, { ...ofKey, reserve: reserveKey }) },
      keyless: { ...one.keyless, batch: defineCreationBatch(one.keyless, { ...ofKey, reserve: goOn }) },
    },
  }
}

/** Sending a creation and reading the outcome. */
interface CreationVerb<NewRecord, Column extends string, Refusal> {
  readonly statements: CreationStatements<Column>
  /** Gives the values of the columns. Default the fields of the record. */
  valuesOf?(record: NewRecord): ColumnValues
  /** Tells why a statement did not go on although its key is free. */
  refused?(answer: ResultColumns<Column, never>): Refusal | undefined
  /** See {@link createCreationBatches}. Null or absent: each creation is sent alone. */
  readonly limits?: WaitLimits | null
}

type Done = { readonly outcome: 'created' }
type Revoked = { readonly outcome: 'unauthenticated' }

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
    limits = null,
  }: CreationVerb<NewRecord, Column, Refusal>,
): (creation: Creation<NewRecord>) => Promise<CreationOutcome | Refusal> {
  const { keyed, keyless } = statements.ofKey
  const ofHost = askEach(database, statements.ofHost)
  const ofKey: WriteAsks<NewValues & OfKey, KeyColumn<Column>> = limits
    ? {
        keyed: createCreationBatches(database, keyed, limits),
        keyless: createCreationBatches(database, keyless, limits),
      }
    : askEach(database, statements.ofKey)

  return (creation) => {
    const { record, apiKeyId } = creation
    const values = Object.assign(creationValues(creation, record.id), given(record))
    const done = (): Done => ({ outcome: 'created' })
    if (apiKeyId === undefined) return write(database, creation, ofHost, values, { done, refused })
    return write<NewValues & OfKey, Column | 'isInForce', Done, Refusal, Revoked>(
      database,
      creation,
      ofKey,
      Object.assign(values, { apiKeyId }),
      {
        done,
        refused,
        judged: ({ isInForce }) => (isInForce === 'false' ? { outcome: 'unauthenticated' } : undefined),
      },
    )
  }
}
