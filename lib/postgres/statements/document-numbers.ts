import { ALREADY_EXISTS, refused } from '../../base/errors.ts'
import { columnsOf, type NamedColumn, type RecordTable } from '../../resources/columns.ts'
import { minorUnits } from '../../resources/currencies.ts'
import type { NewNumber } from '../../resources/document-numbers.ts'
import type { Creation, NumberedOutcome } from '../../writes/creation.ts'
import type { RecordDatabase } from '../connection/database.ts'
import { type ColumnValues, insertInto, valuesOf } from './columns.ts'
import {
  type CreationValues,
  creationValues,
  defineWrite,
  published,
  type WriteStatements,
} from './key-reservation.ts'
import { askEach, defineEntry, type EntryStatement, write } from './write.ts'

type NumberedCreation = Creation<{
  readonly id: string
  readonly number: NewNumber
  readonly currency: string
  readonly minorUnits?: number
}>

interface NumberedValues extends CreationValues {
  /** If `null`, the next number in `series` is used. */
  readonly number: string | null
  readonly series: string | null
}

type NumberedColumn = 'number' | 'isTaken'

/** Statements for creating a numbered record. */
export interface NumberedStatements {
  readonly columns: readonly NamedColumn[]
  readonly create: WriteStatements<NumberedValues & ColumnValues, NumberedColumn>
  readonly entry: EntryStatement
}

/** Builds the statements for creating a numbered record. */
export function defineNumbered(recordTable: RecordTable): NumberedStatements {
  const table = `business_api.${recordTable.table}`
  const columns = columnsOf(recordTable)
  return {
    columns,
    create: defineWrite((reserve) => ({
      steps: [
        // An unassigned number is null, so it never matches.
        `taken as (
          select 1 as one from ${table}
          where organization_id = @organizationId::text and number = @number::text and id <> @writeId::text
        )`,
        reserve({ condition: 'not exists (select 1 from taken)' }),
        // Pick the number only after reserving the key, to avoid gaps from unused numbers.
        `numbered as (
          select case
            when @number::text is not null then @number::text
            else business_api.next_number(@organizationId::text, @series::text, '${table}', @writeId::text)
          end as number
          from reserved
        )`,
        `record as (${insertInto(recordTable.table, columns, 'numbered', { number: 'numbered.number' })})`,
        published(
          'record, numbered',
          `business_api.render_events(
            @events::text::jsonb, pg_catalog.json_build_object('number', numbered.number)
          )`,
        ),
      ],
      answer: {
        number: '(select number from numbered)',
        isTaken: '(select exists (select 1 from taken))::text',
      },
    })),
    // The entry was written before the number was known.
    entry: defineEntry(`
      business_api.render_template(entry.reply, pg_catalog.json_build_object('number', (
        select record.number from ${table} record
        where record.organization_id = @organizationId::text and record.id = entry.record_id
      )))`),
  }
}

/** Creates a numbered record. */
export function createNumbered(
  database: RecordDatabase,
  creation: NumberedCreation,
  { columns, create, entry }: NumberedStatements,
): Promise<NumberedOutcome> {
  const { record } = creation
  const { id, number } = record
  const decimals = record.minorUnits ?? minorUnits(record.currency)
  const all: NumberedValues & ColumnValues = {
    ...valuesOf(columns, { ...record, minorUnits: decimals }),
    ...creationValues(creation, id),
    number: typeof number === 'string' ? number : null,
    series: typeof number === 'string' ? null : number.series,
  }
  return write<typeof all, NumberedColumn, NumberedOutcome, never>(
    database,
    creation,
    askEach(database, create),
    all,
    {
      done: ({ number: given }) => ({ outcome: 'created', number: given ?? '' }),
      refused: refuseTaken,
      entry,
    },
  )
}

function refuseTaken({ isTaken }: { readonly isTaken: string | null }): undefined {
  if (isTaken === 'true') {
    throw refused('Cannot create the record', ALREADY_EXISTS, 'its number is already in use')
  }
}
