import type { RecordKind, RecordRow } from './records.ts'

/** A position in a number series, like `{ series: 'INV-2026', count: 42 }`. Importing it advances the series' counter. */
export interface SeriesPlace {
  readonly series: string
  readonly count: number
}

interface Numbered {
  /** The number's position in one of the library's series, or `null` if the number has another format. */
  readonly place: SeriesPlace | null
}

/** A validated record to import, with the fields that we store. */
export type ImportedRecord = {
  [Kind in RecordKind]: {
    readonly kind: Kind
    readonly record: RecordRow<Kind> & (Kind extends 'proposal' | 'invoice' ? Numbered : unknown)
  }
}[RecordKind]

/**
 * What an import did with a record.
 *
 * - `added`: The import created the record.
 * - `known`: The organization already had the record, with the same values.
 * - `different`: The organization already had a different record with this id. That record wasn't changed.
 */
export type ImportState = 'added' | 'known' | 'different'

/**
 * Why a batch was rejected.
 *
 * - `no_business`: A client's or lead's business isn't in the organization or the batch.
 * - `business_taken`: A client's business already belongs to another client.
 * - `number_taken`: Another invoice or proposal has the same number.
 * - `no_invoice`: A payment's invoice isn't in the organization or the batch.
 * - `too_fine`: A payment has more decimal places than the invoice's currency.
 * - `overpaid`: An invoice's payments add up to more than its `amountPaid`.
 */
export type ImportRefusal =
  | 'no_business'
  | 'business_taken'
  | 'number_taken'
  | 'no_invoice'
  | 'too_fine'
  | 'overpaid'

/** Fields that reference another kind of record. */
export const REFERENCES = [
  { kind: 'client', field: 'businessId', to: 'business', refusal: 'no_business' },
  { kind: 'lead', field: 'businessId', to: 'business', refusal: 'no_business' },
  { kind: 'payment', field: 'invoiceId', to: 'invoice', refusal: 'no_invoice' },
] as const

/** Fields whose values are unique within an organization. */
export const UNIQUE_FIELDS = [
  { kind: 'client', field: 'businessId', noun: 'business', refusal: 'business_taken' },
  { kind: 'proposal', field: 'number', noun: 'number', refusal: 'number_taken' },
  { kind: 'invoice', field: 'number', noun: 'number', refusal: 'number_taken' },
] as const

/** The outcome of an import. Nothing was written if it's `refused`. */
export type ImportOutcome =
  | { readonly outcome: 'imported'; readonly states: readonly ImportState[] }
  | {
      readonly outcome: 'refused'
      /** The rejected records, by index in the batch. */
      readonly refusals: readonly { readonly index: number; readonly reason: ImportRefusal }[]
    }

/** The part of a store that imports existing records. */
export interface ImportStore {
  /**
   * Imports records without publishing events. Either all of them are written or none. Existing records are compared
   * but not changed. Businesses and invoices are written before records that reference them, so any order works.
   *
   * Importing a payment doesn't change the invoice, because `amountPaid` already includes every payment that wasn't
   * reversed. If an invoice in the batch differs from the existing one, its new payments count as different, too.
   *
   * Each series' counter is raised to the highest number added, so new records get higher numbers.
   *
   * @param records the caller must have checked that ids, numbers and client businesses are unique
   */
  write(organizationId: string, records: readonly ImportedRecord[]): Promise<ImportOutcome>
}
