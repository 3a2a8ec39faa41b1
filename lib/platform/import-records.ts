import type { RecordKind } from '../resources/record-tables.ts'
import type { ClientStatus } from './clients.ts'
import type { LeadStage } from './leads.ts'
import type { BillingType } from './projects.ts'

// The records that a host imports.

/** The statuses of an imported proposal. */
export const PROPOSAL_STATUSES = ['draft', 'sent', 'accepted', 'rejected'] as const
/** The statuses of an imported invoice. */
export const INVOICE_STATUSES = ['draft', 'issued', 'partially_paid', 'paid', 'overdue', 'void'] as const
/** The statuses of an imported project. */
export const PROJECT_STATUSES = ['active', 'on_hold', 'completed', 'cancelled'] as const

type Moment = Date | string

/** A business with the host's own id, `biz_` and 1 to 59 letters, digits, hyphens and underscores. */
export interface ImportedBusiness {
  readonly id: string
  /** 1 to 150 characters. */
  readonly name: string
  readonly category?: string | null | undefined
  readonly city?: string | null | undefined
  readonly email?: string | null | undefined
  readonly phone?: string | null | undefined
}

/** A client with the host's own id, `cli_…`, and either the business or the id of a business that is imported before. */
export interface ImportedClient {
  readonly id: string
  readonly status: ClientStatus
  /** Default 0. */
  readonly totalRevenue?: number | undefined
  /** Default 0. */
  readonly monthlyRevenue?: number | undefined
  readonly convertedAt: Moment
  readonly business?: ImportedBusiness | undefined
  readonly businessId?: string | undefined
}

/** A lead with the host's own id, `lead_…`. The band follows from the score. */
export interface ImportedLead {
  readonly id: string
  readonly businessId: string
  readonly stage: LeadStage
  readonly leadScore?: number | null | undefined
  readonly expectedValue?: number | null | undefined
  readonly createdAt: Moment
}

/** A proposal with the host's own id, `prop_…`, and number. */
export interface ImportedProposal {
  readonly id: string
  readonly number: string
  readonly title: string
  readonly status: (typeof PROPOSAL_STATUSES)[number]
  /** Default 1. */
  readonly version?: number | undefined
  readonly total: number
  /** Default 0. */
  readonly monthlyTotal?: number | undefined
  readonly currency: string
  /** Decimals of the currency, 0 to 4. Default the decimals of ISO 4217, or of `currencyDecimals`. */
  readonly minorUnits?: number | undefined
  /** Of an accepted proposal only. Default null. */
  readonly signature?: { readonly signedBy: string; readonly signedAt: Moment } | null | undefined
}

/** An invoice with the host's own id, `inv_…`, and number. Money is in decimal strings. */
export interface ImportedInvoice {
  readonly id: string
  readonly number: string
  /** Fits the money: `paid` with nothing due, `partially_paid` and `overdue` with something due, the others with nothing paid. */
  readonly status: (typeof INVOICE_STATUSES)[number]
  readonly currency: string
  readonly issueDate: Moment
  readonly dueDate: Moment
  readonly total: string
  /** Default the sum of the payments. */
  readonly amountPaid?: string | undefined
  /** Their sum is `amountPaid`. Default: the payments are unknown, or are records of their own. */
  readonly payments?: readonly Omit<ImportedPayment, 'invoiceId'>[] | undefined
  /** Decimals of the currency, 0 to 4. Default the decimals of ISO 4217, or of `currencyDecimals`. */
  readonly minorUnits?: number | undefined
}

/**
 * A payment with the host's own id, `pay_…`, of an invoice that is imported before. A payment is part of the `amountPaid` of the
 * invoice, and changes no invoice.
 */
export interface ImportedPayment {
  readonly id: string
  readonly invoiceId: string
  readonly amount: string
  readonly receivedAt: Moment
}

/** A project with the host's own id, `proj_…`. */
export interface ImportedProject {
  readonly id: string
  readonly name: string
  readonly status: (typeof PROJECT_STATUSES)[number]
  readonly billingType: BillingType
  readonly value: number
}

/** A record to be imported. The fields that follow from others, `scoreBand` and `amountDue`, are ignored. */
export type ImportRecord =
  | { readonly kind: 'business'; readonly record: ImportedBusiness }
  | { readonly kind: 'client'; readonly record: ImportedClient }
  | { readonly kind: 'lead'; readonly record: ImportedLead }
  | { readonly kind: 'proposal'; readonly record: ImportedProposal }
  | { readonly kind: 'invoice'; readonly record: ImportedInvoice }
  | { readonly kind: 'payment'; readonly record: ImportedPayment }
  | { readonly kind: 'project'; readonly record: ImportedProject }

/** The result of an import. */
export interface ImportReport {
  /** Given records that the import has written, whole or in part. */
  readonly added: number
  /** Given records that the organization had before, with the same values in every part. */
  readonly known: number
  /**
   * Records of an id that the organization had before, with other values, which stay. A business that a client brings, and a payment
   * of an invoice, is named itself if nothing else of the given record differs.
   */
  readonly different: readonly {
    /** The place of the given record, from 0. */
    readonly index: number
    readonly kind: RecordKind
    readonly id: string
  }[]
}

/** Imports records that exist already: see `Platform.import`. */
export type ImportCall = (organizationId: string, records: readonly ImportRecord[]) => Promise<ImportReport>

/** Greatest number of records of a call, so that no statement takes long. */
export const IMPORT_MAX = 500
/** Greatest number of rows of a call: a client may bring its business, and an invoice its payments. */
export const IMPORTED_ROWS_MAX = 2000
