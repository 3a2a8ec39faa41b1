import type { Fragment, ISql as Sql } from 'postgres'
import { ALREADY_EXISTS, BusinessApiError } from '../../base/errors.ts'
import type { NewNumber } from '../../resources/document-numbers.ts'
import type { Creation, NumberedOutcome } from '../../writes/creation.ts'
import type { BuildStatement, RecordDatabase, TextRow } from '../connection/database.ts'
import { jsonOf, type KeyHolder, outcomeColumns, published, reserved } from './key-reservation.ts'
import { write } from './write.ts'

/** The tables of numbered records. */
type Table = 'business_api.invoices' | 'business_api.proposals'

type NumberedCreation = Creation<{ readonly id: string; readonly number: NewNumber }>

/** Sends the statement that creates a numbered record. @param build answers {@link numberedColumns} */
export function createNumbered(
  database: RecordDatabase,
  keyHolder: KeyHolder,
  table: Table,
  build: BuildStatement,
): Promise<NumberedOutcome> {
  return write<NumberedOutcome, never>(database, keyHolder, build, {
    done: ([, , number]) => ({ outcome: 'created', number: number ?? '' }),
    refused: refuseTaken,
    // The idempotency entry was written before the number was known.
    reply: (sql) => sql`
      business_api.render_template(entry.reply, json_build_object('number', (
        select record.number from ${sql.unsafe(table)} record
        where record.organization_id = entry.organization_id and record.id = entry.record_id
      )))`,
  })
}

function refuseTaken([, , , isTaken]: TextRow): undefined {
  if (isTaken === 'true') {
    throw new BusinessApiError(ALREADY_EXISTS, 'Cannot create the record because its number is taken')
  }
}

/**
 * Builds the first steps of a statement that creates a numbered record:
 *
 * - `taken`: a row if another record has the number that the host gave
 * - `reserved`: see {@link reserved}
 * - `numbered`: the number, taken from the series only after the key is reserved, because an unused number would be a gap
 * - `published`: see {@link published}
 */
export function beginNumbered(sql: Sql, creation: NumberedCreation, table: Table): Fragment {
  const { organizationId, record, idempotency, events } = creation
  const { id, number } = record
  // Null when the series gives the number: no row equals null, so that `taken` stays empty.
  const given = typeof number === 'string' ? number : null
  const reply = sql`${idempotency?.reply ?? null}::text`
  const filled = sql`
    business_api.render_events(${jsonOf(sql, events)}, json_build_object('number', numbered.number))`
  return sql`
    taken as (
      select 1 from ${sql.unsafe(table)}
      where organization_id = ${organizationId}::text and number = ${given}::text and id <> ${id}::text
    ),
    ${reserved(sql, creation, id, sql`not exists (select 1 from taken)`, reply)},
    numbered as (select ${numberOf(sql, creation, table)} as number from reserved),
    ${published(sql, organizationId, filled, sql`numbered`)}`
}

function numberOf(sql: Sql, { organizationId, record }: NumberedCreation, table: Table): Fragment {
  const { id, number } = record
  if (typeof number === 'string') return sql`${number}::text`
  return sql`
    business_api.next_number(${organizationId}::text, ${number.series}::text, ${table}::text, ${id}::text)`
}

/** Builds the columns of the answer that {@link createNumbered} reads. */
export function numberedColumns(sql: Sql): Fragment {
  return sql`${outcomeColumns(sql)}, (select number from numbered), (select exists (select 1 from taken))::text`
}
