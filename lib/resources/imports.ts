import type { RecordKind, RecordRow } from './records.ts'

/** A number of a series, `{ series: 'INV-2026', count: 42 }`, for the counter of the series. */
export interface SeriesPlace {
  readonly series: string
  readonly count: number
}

/** Facts about an imported invoice or proposal besides its fields. */
interface Numbered {
  /** The number's place in the library's series; null for a number of another form. */
  readonly place: SeriesPlace | null
}

/** An imported record, checked, with the fields that the store keeps. */
export type ImportedRecord = {
  [Kind in RecordKind]: {
    readonly kind: Kind
    readonly record: RecordRow<Kind> & (Kind extends 'proposal' | 'invoice' ? Numbered : unknown)
  }
}[RecordKind]

/**
 * The state of a record after an import.
 *
 * - `added`: the import has written the record.
 * - `known`: the organization had the same record before, with the same values.
 * - `different`: the organization had another record with this id, which stays as it was.
 */
export type ImportState = 'added' | 'known' | 'different'

/**
 * The reason for rejecting a batch.
 *
 * - `no_business`: neither the organization nor the batch has the business of a client or a lead.
 * - `business_taken`: the business of a client has become another client.
 * - `number_taken`: another invoice, or another proposal, has the number.
 * - `no_invoice`: neither the organization nor the batch has the invoice of a payment.
 * - `too_fine`: a payment is finer than the currency of the invoice.
 * - `overpaid`: the payments of an invoice are more than the invoice's `amountPaid`.
 */
export type ImportRefusal =
  | 'no_business'
  | 'business_taken'
  | 'number_taken'
  | 'no_invoice'
  | 'too_fine'
  | 'overpaid'

/** The fields by which records name records of another kind. */
export const REFERENCES = [
  { kind: 'client', field: 'businessId', to: 'business', refusal: 'no_business' },
  { kind: 'lead', field: 'businessId', to: 'business', refusal: 'no_business' },
  { kind: 'payment', field: 'invoiceId', to: 'invoice', refusal: 'no_invoice' },
] as const

/** The fields whose value only one record of an organization has. */
export const UNIQUE_FIELDS = [
  { kind: 'client', field: 'businessId', noun: 'business', refusal: 'business_taken' },
  { kind: 'proposal', field: 'number', noun: 'number', refusal: 'number_taken' },
  { kind: 'invoice', field: 'number', noun: 'number', refusal: 'number_taken' },
] as const

/** The outcome of an import; after `refused` nothing was written. */
export type ImportOutcome =
  | { readonly outcome: 'imported'; readonly states: readonly ImportState[] }
  | {
      readonly outcome: 'refused'
      /** The rejected records, by their place in the batch, from 0. */
      readonly refusals: readonly { readonly index: number; readonly reason: ImportRefusal }[]
    }

/** The slice of a store for records that exist already. */
export interface ImportStore {
  /**
   * Writes the records that the organization does not have, without events, all of them or none. A record that the organization
   * has is compared and left as it is. Businesses and invoices are written before the records that refer to them, so a batch
   * may have its records in any order.
   *
   * A payment is part of the invoice's `amountPaid`, unless it was reversed, and changes no invoice. A new payment of an invoice that the batch has too,
   * and that is different, is different.
   *
   * The counter of each series moves on to the maximum number of the added records, so later records of the series get
   * later numbers.
   *
   * @param records with different ids, numbers and businesses of clients: the caller has compared them
   */
  write(organizationId: string, records: readonly ImportedRecord[]): Promise<ImportOutcome>
}
