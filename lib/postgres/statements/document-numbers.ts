import { ALREADY_EXISTS, BusinessApiError } from '../../base/errors.ts'
import type { NewNumber } from '../../resources/document-numbers.ts'
import type { Creation, NumberedOutcome } from '../../writes/creation.ts'
import type { RecordDatabase } from '../connection/database.ts'
import {
  type CreationValues,
  creationValues,
  defineWrite,
  published,
  type WriteStatements,
} from './key-reservation.ts'
import type { Value } from './statement.ts'
import { defineEntry, type EntryStatement, write } from './write.ts'

/** The tables of records that have a number each. */
type Table = 'business_api.invoices' | 'business_api.proposals'

type NumberedCreation = Creation<{ readonly id: string; readonly number: NewNumber }>

/** The values of a creation that has a number. */
interface NumberedValues extends CreationValues {
  /** Null: the next number of `series`. */
  readonly number: string | null
  readonly series: string | null
}

type NumberedColumn = 'number' | 'isTaken'

/** The statements of a creation that has a number. */
export interface NumberedStatements<Values> {
  readonly create: WriteStatements<NumberedValues & Values, NumberedColumn>
  readonly entry: EntryStatement
}

/**
 * Builds the statements of a creation that has a number.
 *
 * @param step the name of the step that writes the record
 * @param insert that step, from the row `numbered`: returns the number; no row for a record that was there before
 */
export function defineNumbered<Values>(
  table: Table,
  step: string,
  insert: string,
): NumberedStatements<Values> {
  return {
    create: defineWrite((reserve) => ({
      steps: [
        // Nothing is equal to null: a number that is still to be found is not taken.
        `taken as (
          select 1 as one from ${table}
          where organization_id = @organizationId::text and number = @number::text and id <> @writeId::text
        )`,
        reserve({ condition: 'not exists (select 1 from taken)' }),
        // Found only once the key is reserved: a number that no record gets would be a gap.
        `numbered as (
          select case
            when @number::text is not null then @number::text
            else business_api.next_number(@organizationId::text, @series::text, '${table}', @writeId::text)
          end as number
          from reserved
        )`,
        insert,
        published(
          step,
          `business_api.render_events(
            @events::text::jsonb, pg_catalog.json_build_object('number', ${step}.number)
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

/** Sends the statement of a creation that has a number. */
export function createNumbered<Values>(
  database: RecordDatabase,
  creation: NumberedCreation,
  { create, entry }: NumberedStatements<Values>,
  values: Values & Readonly<Record<keyof Values, Value>>,
): Promise<NumberedOutcome> {
  const { id, number } = creation.record
  const common: NumberedValues = {
    ...creationValues(creation, id),
    number: typeof number === 'string' ? number : null,
    series: typeof number === 'string' ? null : number.series,
  }
  type All = NumberedValues & Values
  return write<All, NumberedColumn, NumberedOutcome, never>(
    database,
    creation,
    create,
    { ...common, ...values } as All & Record<keyof All, Value>,
    {
      done: ({ number: given }) => ({ outcome: 'created', number: given ?? '' }),
      refused: refuseTaken,
      entry,
    },
  )
}

function refuseTaken({ isTaken }: { readonly isTaken: string | null }): undefined {
  if (isTaken === 'true') {
    throw new BusinessApiError(ALREADY_EXISTS, 'Cannot create the record because its number is taken')
  }
}
