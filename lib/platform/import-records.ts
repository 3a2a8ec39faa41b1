import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { MomentSchema, oneOf, whole } from '../base/host-input.ts'
import type { IdKind } from '../base/ids.ts'
import { CreateBusinessInputSchema } from '../resources/businesses.ts'
import type { RecordKind } from '../resources/record-tables.ts'
import { STATUSES } from './clients.ts'
import {
  AmountSchema,
  amount,
  CurrencySchema,
  MoneyOrZeroSchema,
  MoneySchema,
  NumberSchema,
  SignedAmountSchema,
  SignedMoneySchema,
  TitleSchema,
} from './inputs.ts'
import { STAGES } from './leads.ts'
import { BILLING_TYPES } from './projects.ts'

// The records that a host imports, each with the host's own id: the kind, `_`, and 1 to 59 letters, digits, hyphens and underscores.

/** The statuses of an imported proposal. */
export const PROPOSAL_STATUSES = ['draft', 'sent', 'accepted', 'rejected'] as const
/** The statuses of an imported invoice. */
export const INVOICE_STATUSES = ['draft', 'issued', 'partially_paid', 'paid', 'overdue', 'void'] as const
/** The statuses of an imported project. */
export const PROJECT_STATUSES = ['active', 'on_hold', 'completed', 'cancelled'] as const

// --- Inputs ---

/** An id that lists of the API can continue after. */
function ownId(kind: IdKind) {
  const requirement = `must be ${kind}_ and 1 to 59 letters, digits, hyphens and underscores`
  const pattern = new RegExp(`^${kind}_[A-Za-z0-9_-]{1,59}$`)
  return v.pipe(
    v.string(requirement),
    v.check((id) => pattern.test(id), requirement),
  )
}

/** Optional fields of the API as an import takes them: absent is null. */
function nullable<Entries extends Record<string, v.ExactOptionalSchema<v.GenericSchema<string>, undefined>>>(
  entries: Entries,
): {
  [Field in keyof Entries]: ReturnType<typeof orNull<Entries[Field]['wrapped']>>
} {
  const all = Object.entries(entries).map(([name, { wrapped }]) => [name, orNull(wrapped)])
  return Object.fromEntries(all)
}

function orNull<Schema extends v.GenericSchema>(schema: Schema) {
  return v.optional(v.nullable(schema), null)
}

const { name: _, ...optionalFields } = CreateBusinessInputSchema.entries

/** The fields of an imported business: those of a new business, with a name of one letter or more. */
export const BusinessFields = v.object({
  id: ownId('biz'),
  name: field.text(1, 150),
  ...nullable(optionalFields),
})
/** The fields of an imported record. */
export const ClientFields = v.object({
  id: ownId('cli'),
  status: oneOf(STATUSES),
  totalRevenue: v.optional(SignedAmountSchema, 0),
  monthlyRevenue: v.optional(SignedAmountSchema, 0),
  convertedAt: MomentSchema,
  business: v.exactOptional(v.record(v.string(), v.unknown())),
  businessId: v.exactOptional(ownId('biz')),
})
/** The fields of an imported record. */
export const LeadFields = v.object({
  id: ownId('lead'),
  stage: oneOf(STAGES),
  leadScore: orNull(amount(0, 100)),
  expectedValue: orNull(AmountSchema),
  createdAt: MomentSchema,
  businessId: ownId('biz'),
})
/** The fields of an imported record. */
export const SignatureFields = v.object({ signedBy: TitleSchema, signedAt: MomentSchema })
const MinorUnitsSchema = v.exactOptional(whole(0, 4))
/** The fields of an imported record. */
export const ProposalFields = v.object({
  id: ownId('prop'),
  number: NumberSchema,
  title: TitleSchema,
  status: oneOf(PROPOSAL_STATUSES),
  version: v.optional(whole(1, 2_147_483_647), 1),
  total: AmountSchema,
  monthlyTotal: v.optional(AmountSchema, 0),
  currency: CurrencySchema,
  minorUnits: MinorUnitsSchema,
  signature: orNull(v.record(v.string(), v.unknown())),
})
/** The fields of an imported record. */
export const PartFields = v.object({ id: ownId('pay'), amount: MoneySchema, receivedAt: MomentSchema })
/** The fields of an imported record. */
export const PaymentFields = v.object({
  ...PartFields.entries,
  amount: SignedMoneySchema,
  invoiceId: ownId('inv'),
  reversedBy: v.exactOptional(ownId('pay')),
})
/** The fields of an imported record. */
export const InvoiceFields = v.object({
  id: ownId('inv'),
  number: NumberSchema,
  status: oneOf(INVOICE_STATUSES),
  currency: CurrencySchema,
  issueDate: MomentSchema,
  dueDate: MomentSchema,
  total: MoneyOrZeroSchema,
  amountPaid: v.exactOptional(MoneyOrZeroSchema),
  minorUnits: MinorUnitsSchema,
  payments: v.exactOptional(
    v.pipe(v.array(v.unknown(), 'must be an array'), v.maxLength(1000, 'must be at most 1000 payments')),
  ),
})
/** The fields of an imported record. */
export const ProjectFields = v.object({
  id: ownId('proj'),
  name: TitleSchema,
  status: oneOf(PROJECT_STATUSES),
  billingType: oneOf(BILLING_TYPES),
  value: AmountSchema,
})

// --- Types ---

/** The given fields of a record; an optional field may be undefined. */
type Given<Schema extends v.GenericSchema> = {
  readonly [Field in keyof v.InferInput<Schema>]:
    | v.InferInput<Schema>[Field]
    | (object extends Pick<v.InferInput<Schema>, Field> ? undefined : never)
}

/** A business. */
export type ImportedBusiness = Given<typeof BusinessFields>
/** A client, and either the business or the id of a business that is imported before. Revenues are 0 by default. */
export interface ImportedClient extends Omit<Given<typeof ClientFields>, 'business'> {
  readonly business?: ImportedBusiness | undefined
}
/** A lead. The band follows from the score. */
export type ImportedLead = Given<typeof LeadFields>
/** A proposal with the host's own number. The version is 1 by default, the monthly total 0, `minorUnits` that of the currency. */
export interface ImportedProposal extends Omit<Given<typeof ProposalFields>, 'signature'> {
  /** Of an accepted proposal only. Default null. */
  readonly signature?: Given<typeof SignatureFields> | null | undefined
}
/**
 * An invoice with the host's own number. Money is in decimal strings. The status fits the money: `paid` with nothing due,
 * `partially_paid` and `overdue` with something due, the others with nothing paid.
 */
export interface ImportedInvoice extends Omit<Given<typeof InvoiceFields>, 'payments'> {
  /** Their sum is `amountPaid`. Default: the payments are unknown, or are records of their own. */
  readonly payments?: readonly Given<typeof PartFields>[] | undefined
}
/**
 * A payment of an invoice that is imported before. A payment is part of the `amountPaid` of the invoice, and changes no invoice. A reversed
 * payment names its reversal, a payment of the amount with a minus.
 */
export type ImportedPayment = Given<typeof PaymentFields>
/** A project. */
export type ImportedProject = Given<typeof ProjectFields>

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
