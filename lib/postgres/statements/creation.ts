import type { NamedColumn } from '../../resources/columns.ts'
import type { Creation, CreationOutcome } from '../../writes/creation.ts'
import { type ApiCreationOutcome, declareOneStep } from '../../writes/one-step.ts'
import type { Admissions } from '../admission.ts'
import type { RecordDatabase } from '../connection/database.ts'
import { type AdmittedColumn, type AdmittedValues, defineAdmittedWrite } from './admitted-write.ts'
import { type ColumnValues, insertInto, valuesOf } from './columns.ts'
import {
  type CreationValues,
  creationValues,
  defineWrite,
  published,
  type Reserve,
  type WriteParts,
  type WriteStatements,
} from './key-reservation.ts'
import type { ResultColumns } from './statement.ts'
import { writeCreation } from './write.ts'

type NewValues = CreationValues & ColumnValues

/** The statements of a creation: alone, and with the judgement of the API's request. */
export interface CreationStatements<Column extends string> {
  readonly columns: readonly NamedColumn[]
  readonly alone: WriteStatements<NewValues, Column>
  readonly admitted: WriteStatements<NewValues & AdmittedValues, Column | AdmittedColumn>
}

/**
 * Builds the statements of a creation.
 *
 * @param parts further columns of the answer, steps before the key is reserved, and their condition: see {@link defineWrite}
 */
export function defineCreation<Column extends string>(
  table: string,
  columns: readonly NamedColumn[],
  { steps = [], condition = 'true', answer }: WriteParts<Column> & { readonly condition?: string },
): CreationStatements<Column> {
  const parts = (reserve: Reserve): WriteParts<Column> => ({
    steps: [
      ...steps,
      reserve({ condition }),
      `record as (${insertInto(table, columns, 'reserved')})`,
      published('record'),
    ],
    answer,
  })
  return { columns, alone: defineWrite(parts), admitted: defineAdmittedWrite(parts) }
}

/** How a creation is sent, and its outcome read. */
interface CreationVerb<NewRecord, Column extends string, Refusal> {
  readonly statements: CreationStatements<Column>
  /** Gives the values of the columns. Default the fields of the record. */
  valuesOf?(record: NewRecord): ColumnValues
  /** Tells why a statement did not go on although its key is free. */
  refused?(answer: ResultColumns<Column, never>): Refusal | undefined
}

/** Builds the verb that creates a record. @param admissions of a resource that the API creates: judged in the same step */
export function createVerb<
  NewRecord extends { readonly id: string },
  Column extends string = never,
  Refusal extends ApiCreationOutcome = never,
>(
  database: RecordDatabase,
  admissions: Admissions | null,
  {
    statements,
    valuesOf: given = (record) => valuesOf(statements.columns, record),
    refused = () => undefined,
  }: CreationVerb<NewRecord, Column, Refusal>,
): (creation: Creation<NewRecord>) => Promise<CreationOutcome | Refusal> {
  const allOf = (creation: Creation<NewRecord>): NewValues =>
    Object.assign(creationValues(creation, creation.record.id), given(creation.record))
  const create = (creation: Creation<NewRecord>): Promise<CreationOutcome | Refusal> =>
    writeCreation(database, creation, statements.alone, allOf(creation), { refused })
  if (admissions) {
    declareOneStep<NewRecord>(admissions, create, (request, creation) =>
      admissions.admitAndWrite(request, (values, judge) => {
        const all = Object.assign(allOf(creation), values)
        return writeCreation(database, creation, statements.admitted, all, { judge, refused })
      }),
    )
  }
  return create
}
