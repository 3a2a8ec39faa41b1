import * as v from 'valibot'
import { ALREADY_EXISTS, BusinessApiError, INVALID_INPUT, NOT_FOUND, refused } from '../base/errors.ts'
import { defineCall } from '../base/host-input.ts'
import type { RecordStore } from '../business-store.ts'
import {
  type ImportedRecord,
  type ImportRefusal,
  type ImportState,
  UNIQUE_FIELDS,
} from '../resources/imports.ts'
import type { CallTools, Refusal } from './calls.ts'
import { type GivenRecord, readGivenRecord } from './import-reading.ts'
import { IMPORT_MAX, IMPORTED_ROWS_MAX, type ImportCall, type ImportReport } from './import-records.ts'

/**
 * Writes validated records, all or nothing.
 *
 * @throws `BusinessApiError` with code `not_found` if a business or invoice doesn't exist, `already_exists` if another
 * record has the same number or business, or `invalid_input` if a payment doesn't fit its invoice
 */
export async function importRecords(
  { imports }: Pick<RecordStore, 'imports'>,
  organizationId: string,
  given: readonly GivenRecord[],
): Promise<ImportReport> {
  const rows = given.flatMap((record) => record.rows.map((row) => ({ record, row })))
  // Only pass the first row with a given id to the store. Any others with that id are compared with it.
  const firsts = new Map<string, number>()
  const unique = rows.filter(({ row }) => {
    const isFirst = !firsts.has(keyOf(row))
    if (isFirst) firsts.set(keyOf(row), firsts.size)
    return isFirst
  })
  refuseContradictions(unique)
  const outcome = await imports.write(
    organizationId,
    unique.map(({ row }) => row),
  )
  if (outcome.outcome === 'refused') {
    throw refusalOf(
      outcome.refusals.map(({ index, reason }) => ({ name: unique[index]?.record.name, reason })),
    )
  }
  const stateOf = (row: ImportedRecord): ImportState => {
    const first = firsts.get(keyOf(row)) ?? 0
    const state = outcome.states[first] ?? 'different'
    if (unique[first]?.row === row) return state
    const isSame = JSON.stringify(unique[first]?.row) === JSON.stringify(row)
    return isSame && state !== 'different' ? 'known' : 'different'
  }
  return reportOf(given, stateOf)
}

function keyOf({ kind, record }: ImportedRecord): string {
  return `${kind} ${record.id}`
}

function reportOf(
  given: readonly GivenRecord[],
  stateOf: (row: ImportedRecord) => ImportState,
): ImportReport {
  const states = given.map(({ rows }) => rows.map(stateOf))
  const different = given.flatMap((record, index) => {
    const rows = record.rows.filter((_, place) => states[index]?.[place] === 'different')
    // Don't list an invoice's payments separately if the invoice itself differs.
    const own = rows.filter((row) => keyOf(row) === `${record.kind} ${record.id}`)
    return (own.length > 0 ? own : rows).map((row) => ({ index, kind: row.kind, id: row.record.id }))
  })
  return {
    added: states.filter((parts) => parts.includes('added')).length,
    known: states.filter((parts) => parts.every((state) => state === 'known')).length,
    different,
  }
}

interface NamedRow {
  readonly record: GivenRecord
  readonly row: ImportedRecord
}

/** Rejects records in the same batch that have the same number or business. */
function refuseContradictions(rows: readonly NamedRow[]): void {
  const owners = new Map<string, GivenRecord>()
  for (const { record, row } of rows) {
    for (const [key, noun] of claimsOf(row)) {
      const owner = owners.get(key)
      if (owner) {
        const text = `${owner.name} has the same ${noun}`
        throw new BusinessApiError(ALREADY_EXISTS, `Cannot import ${record.name} because ${text}`)
      }
      owners.set(key, record)
    }
  }
}

/** Returns the values that must be unique within an organization, and what to call them. */
function claimsOf({ kind, record }: ImportedRecord): readonly (readonly [key: string, noun: string])[] {
  return UNIQUE_FIELDS.filter((unique) => unique.kind === kind).map(
    ({ field, noun }) => [`${kind} ${Reflect.get(record, field)}`, noun] as const,
  )
}

const REFUSALS: Readonly<Record<ImportRefusal, Refusal>> = {
  no_business: [
    NOT_FOUND,
    'the organization has no business with its businessId: import the business first',
    ['businessId'],
  ],
  business_taken: [ALREADY_EXISTS, 'its business has become another client', ['businessId']],
  number_taken: [ALREADY_EXISTS, 'another record already has its number', ['number']],
  no_invoice: [
    NOT_FOUND,
    'the organization has no invoice with its invoiceId: import the invoice first',
    ['invoiceId'],
  ],
  too_fine: [INVALID_INPUT, "its amount has more decimals than the invoice's currency", ['amount']],
  overpaid: [
    INVALID_INPUT,
    'the payments of its invoice exceed the amountPaid of the invoice',
    ['payments', 'amountPaid'],
  ],
}

/** Maximum number of rejections to list per message. */
const REFUSALS_SHOWN = 5

function refusalOf(
  refusals: readonly { readonly name: string | undefined; readonly reason: ImportRefusal }[],
): BusinessApiError {
  const [code] = REFUSALS[refusals[0]?.reason ?? 'no_business']
  const shown = refusals.slice(0, REFUSALS_SHOWN)
  const texts = shown.map(({ name, reason }) => `Cannot import ${name} because ${REFUSALS[reason][1]}`)
  const rest = refusals.length - shown.length
  const fields = new Set(shown.flatMap(({ reason }) => REFUSALS[reason][2] ?? []))
  return new BusinessApiError(code, [...texts, ...(rest > 0 ? [`and ${rest} more`] : [])].join('; '), {
    fields: [...fields],
  })
}

// --- Call ---

const listRequirement = `must be an array of at most ${IMPORT_MAX} records`
const readImport = defineCall('Cannot import the records', {
  records: v.pipe(v.array(v.unknown(), listRequirement), v.maxLength(IMPORT_MAX, listRequirement)),
})

/** Creates the import call. */
export function createImportCall(store: Pick<RecordStore, 'imports'>, tools: CallTools): ImportCall {
  return async (organizationId, records) => {
    const { action, organizationId: owner, input } = readImport(organizationId, { records })
    const given = input.records.map((record, index) => readGivenRecord(record, `record ${index}`, tools))
    if (given.flatMap(({ rows }) => rows).length > IMPORTED_ROWS_MAX) {
      const text = `they must have at most ${IMPORTED_ROWS_MAX - IMPORT_MAX} payments`
      throw refused(action, INVALID_INPUT, text, ['records'])
    }
    if (given.length === 0) return { added: 0, known: 0, different: [] }
    return importRecords(store, owner, given)
  }
}
