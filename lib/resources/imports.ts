import type { RecordKind, RecordRow } from './records.ts'

/** A position in a number series, such as `{ series: 'INV-2026', count: 42 }`. Advances the series' counter. */
export interface SeriesPlace {
  readonly series: string
  readonly count: number
}

/** Additional data for an imported invoice or proposal. */
interface Numbered {
  /** The position of its number in a series of the library, or `null` if the number has a different format. */
  readonly place: SeriesPlace | null
}

/** A validated record to import, with the fields that are stored. */
export type ImportedRecord = {
  [Kind in RecordKind]: {
    readonly kind: Kind
    readonly record: RecordRow<Kind> & (Kind extends 'proposal' | 'invoice' ? Numbered : unknown)
  }
}[RecordKind]

/**
 * What an import did with a record.
 *
 * - `added`: the import created the record.
 * - `known`: the organization already had the record with the same values.
 * - `different`: the organization already had a different record with this id, which wasn't changed.
 */
export type ImportState = 'added' | 'known' | 'different'

/**
 * Why a batch was rejected.
 *
 * - `no_business`: the business of a client or lead is neither in the organization nor in the batch.
 * - `business_taken`: the business of a client already belongs to another client.
 * - `number_taken`: another invoice or proposal has the same number.
 * - `no_invoice`: the invoice of a payment is neither in the organization nor in the batch.
 * - `too_fine`: a payment has more decimals than the invoice's currency.
 * - `overpaid`: the sum of an invoice's payments exceeds its `amountPaid`.
 */
export type ImportRefusal =
  | 'no_business'
  | 'business_taken'
  | 'number_taken'
  | 'no_invoice'
  | 'too_fine'
  | 'overpaid'

/** The fields that refer to a record of another kind. */
export const REFERENCES = [
  { kind: 'client', field: 'businessId', to: 'business', refusal: 'no_business' },
  { kind: 'lead', field: 'businessId', to: 'business', refusal: 'no_business' },
  { kind: 'payment', field: 'invoiceId', to: 'invoice', refusal: 'no_invoice' },
] as const

/** The fields whose values are unique within an organization. */
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
      /** The rejected records by their index in the batch. */
      readonly refusals: readonly { readonly index: number; readonly reason: ImportRefusal }[]
    }

/** The part of a store that imports existing records. */
export interface ImportStore {
  /**
   * Imports records without publishing events, either all of them or none. Existing records are compared but not
   * changed. Businesses and invoices are written before the records that refer to them, so a batch can be in any order.
   *
   * A payment doesn't change its invoice, whose `amountPaid` already includes it, unless it was reversed. If an invoice
   * in the batch already exists and is different, its new payments are different as well.
   *
   * The counter of each series is raised to the highest number added, so new records get higher numbers.
   *
   * @param records their ids, numbers and client businesses must be unique, which the caller has checked
   */
  write(organizationId: string, records: readonly ImportedRecord[]): Promise<ImportOutcome>
}
