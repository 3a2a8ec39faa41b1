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
} from './key-reservation.ts'
import type { ResultColumns } from './statement.ts'
import { askEach, type WriteAsks, write } from './write.ts'

type NewValues = CreationValues & ColumnValues
type OfKey = { readonly apiKeyId: string }

/** A creation's statements, with and without an idempotency key. */
export interface CreationWrites<Values extends object, Column extends string> {
  readonly keyed: CreationStatement<Values & KeyValues, Column | OutcomeColumn>
  readonly keyless: CreationStatement<Values, Column | OutcomeColumn>
}

/** A creation's statements. The host's own code has separate ones, because only API roles may read API keys. */
export interface CreationStatements<Column extends string> {
  readonly columns: readonly NamedColumn[]
  readonly ofHost: CreationWrites<NewValues, Column>
  readonly ofKey: CreationWrites<NewValues & OfKey, Column | 'isInForce'>
}

/**
 * Condition that the write's API key is active, since it may have been revoked after the check. We don't use `exists`
 * because PostgreSQL would turn it into a join, planned for a table that was empty at the time.
 */
export const IS_IN_FORCE = `((
  select true from business_api.api_keys key
  where key.organization_id = @organizationId::text and key.id = @apiKeyId::text
    and (key.revoked_at is null or key.revoked_at > pg_catalog.clock_timestamp())
    and (key.expires_at is null or key.expires_at > pg_catalog.clock_timestamp())
) is not null)`

/**
 * Builds a creation's statements.
 *
 * @param condition whether the record may be written. Can't have its own steps. Defaults to always
 * @param answer additional result columns, which can't have their own steps either
 */
export function defineCreation<Column extends string = never>(
  table: string,
  columns: readonly NamedColumn[],
  condition = 'true',
  answer = {} as Readonly<Record<Column, string>>,
): CreationStatements<Column> {
  const define = <Values extends object, Answer extends string>(
    condition: string,
    answer: Readonly<Record<Answer, string>>,
  ): CreationWrites<Values, Answer> => {
    const { keyed, keyless } = defineWrite<Values, Answer>((reserve) => ({
      steps: [
        reserve({ condition }),
        `record as (${insertInto(table, columns, 'reserved')})`,
        published('record'),
      ],
      answer,
    }))
    const parts = { table, columns, condition, answer }
    return {
      keyed: { ...keyed, batch: defineCreationBatch(keyed, { ...parts, reserve: reserveKey }) },
      keyless: { ...keyless, batch: defineCreationBatch(keyless, { ...parts, reserve: goOn }) },
    }
  }
  return {
    columns,
    ofHost: define(condition, answer),
    ofKey: define<NewValues & OfKey, Column | 'isInForce'>(`${IS_IN_FORCE} and ${condition}`, {
      ...answer,
      isInForce: unlessGoneOn(IS_IN_FORCE),
    }),
  }
}

interface CreationVerb<NewRecord, Column extends string, Refusal> {
  readonly statements: CreationStatements<Column>
  /** Returns the column values. Defaults to the record's fields. */
  valuesOf?(record: NewRecord): ColumnValues
  /** Returns the reason why nothing was written even though the idempotency key is free. */
  refused?(answer: ResultColumns<Column, never>): Refusal | undefined
  /** See {@link createCreationBatches}. If `null`, each creation is sent separately. */
  readonly limits: WaitLimits | null
}

type Done = { readonly outcome: 'created' }
type Revoked = { readonly outcome: 'unauthenticated' }

/** Builds the method that creates a record. */
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
    limits,
  }: CreationVerb<NewRecord, Column, Refusal>,
): (creation: Creation<NewRecord>) => Promise<CreationOutcome | Refusal> {
  const asksFor = <Values extends object, Answer extends string>(
    writes: CreationWrites<Values, Answer>,
  ): WriteAsks<Values, Answer | OutcomeColumn> =>
    limits
      ? {
          keyed: createCreationBatches(database, writes.keyed, limits),
          keyless: createCreationBatches(database, writes.keyless, limits),
        }
      : askEach(database, writes)
  const [ofHost, ofKey] = [asksFor(statements.ofHost), asksFor(statements.ofKey)]

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
