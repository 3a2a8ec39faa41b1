import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { MomentSchema, oneOf, whole } from '../base/host-input.ts'
import type { IdKind } from '../base/ids.ts'
import { CreateBusinessInputSchema } from '../resources/businesses.ts'
import { PLAIN_RESOURCES, type RecordKind } from '../resources/records.ts'
import { STATUSES } from './clients.ts'
import {
  CurrencySchema,
  MoneyOrZeroSchema,
  MoneySchema,
  NumberSchema,
  SignedMoneySchema,
  TitleSchema,
} from './inputs.ts'
import { STAGES } from './leads.ts'

// The records that a host imports, each with the host's own id: the kind, `_`, and 1 to 59 letters, digits, hyphens and underscores.

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

/** An object that is read by itself, so messages name its own fields. */
function part<Schema extends v.GenericSchema>() {
  return v.custom<Given<Schema>>((given) => typeof given === 'object' && given !== null, 'must be an object')
}

const BusinessFields = v.object({
  id: ownId('biz'),
  name: field.text(1, 150),
  ...nullable(optionalFields),
})

/** The fields of an imported proposal's signature. */
export const SignatureFields = v.object({ signedBy: TitleSchema, signedAt: MomentSchema })

/** The fields of a payment in an imported invoice. */
export const PartFields = v.object({ id: ownId('pay'), amount: MoneySchema, receivedAt: MomentSchema })

const MinorUnitsSchema = v.exactOptional(whole(0, 4))

/** Each kind's fields in an import. A business is as a new one, with a name of one letter or more. */
export const IMPORT_FIELDS = {
  business: BusinessFields,
  client: v.object({
    id: ownId('cli'),
    status: oneOf(STATUSES),
    totalRevenue: v.optional(field.decimal(), 0),
    monthlyRevenue: v.optional(field.decimal(), 0),
    convertedAt: MomentSchema,
    business: v.exactOptional(part<typeof BusinessFields>()),
    businessId: v.exactOptional(ownId('biz')),
  }),
  lead: v.object({
    id: ownId('lead'),
    stage: oneOf(STAGES),
    leadScore: orNull(field.decimal(0, 100)),
    expectedValue: orNull(field.decimal(0)),
    createdAt: MomentSchema,
    businessId: ownId('biz'),
  }),
  proposal: v.object({
    id: ownId('prop'),
    number: NumberSchema,
    title: TitleSchema,
    status: oneOf(['draft', 'sent', 'accepted', 'rejected']),
    version: v.optional(whole(1, 2_147_483_647), 1),
    total: field.decimal(0),
    monthlyTotal: v.optional(field.decimal(0), 0),
    currency: CurrencySchema,
    minorUnits: MinorUnitsSchema,
    signature: orNull(part<typeof SignatureFields>()),
  }),
  invoice: v.object({
    id: ownId('inv'),
    number: NumberSchema,
    status: oneOf(['draft', 'issued', 'partially_paid', 'paid', 'overdue', 'void']),
    currency: CurrencySchema,
    issueDate: MomentSchema,
    dueDate: MomentSchema,
    total: MoneyOrZeroSchema,
    amountPaid: v.exactOptional(MoneyOrZeroSchema),
    minorUnits: MinorUnitsSchema,
    payments: v.exactOptional(
      v.pipe(
        v.array(part<typeof PartFields>(), 'must be an array'),
        v.maxLength(1000, 'must be at most 1000 payments'),
      ),
    ),
  }),
  payment: v.object({
    ...PartFields.entries,
    amount: SignedMoneySchema,
    invoiceId: ownId('inv'),
    reversedBy: v.exactOptional(ownId('pay')),
  }),
  // Plain records: the resource's fields, with the id.
  ...(Object.fromEntries(
    Object.values(PLAIN_RESOURCES).map(({ kind, idKind, fields }) => [
      kind,
      v.object({ id: ownId(idKind), ...fields }),
    ]),
  ) as object as PlainFields),
}

type Plain = typeof PLAIN_RESOURCES
type PlainFields = { readonly [Name in keyof Plain as Plain[Name]['kind']]: FieldsOf<Plain[Name]> }
type FieldsOf<Resource> = Resource extends { readonly fields: infer Fields extends v.ObjectEntries }
  ? v.ObjectSchema<Fields & { readonly id: v.GenericSchema<string> }, undefined>
  : never

// --- Types ---

/** The given fields of a record; an optional field may be undefined. */
type Given<Schema extends v.GenericSchema> = {
  readonly [Field in keyof v.InferInput<Schema>]:
    | v.InferInput<Schema>[Field]
    | (object extends Pick<v.InferInput<Schema>, Field> ? undefined : never)
}

/**
 * The fields of a record to be imported.
 *
 * - A `client` has either its business or the `businessId` of a business that is imported before. Revenues are 0 by default.
 * - A `proposal` and an `invoice` have the host's own number, and by default the `minorUnits` of the currency. The version of a
 *   proposal is 1 by default, the monthly total 0. Only an accepted proposal has a signature.
 * - Money of an `invoice` is in decimal strings, and fits the status: `paid` with nothing due, `partially_paid` and `overdue` with
 *   something due, the others with nothing paid. The sum of `payments` is `amountPaid`. Without them the payments are unknown, or
 *   are records of their own.
 * - A `payment` belongs to an invoice that is imported before. It is part of the `amountPaid` of the invoice, and changes no invoice. A
 *   reversed payment names its reversal, a payment of the amount with a minus.
 */
export type Imported<Kind extends RecordKind> = Given<(typeof IMPORT_FIELDS)[Kind]>

/** A record to be imported. The fields that follow from others, `scoreBand` and `amountDue`, are ignored. */
export type ImportRecord = {
  [Kind in RecordKind]: { readonly kind: Kind; readonly record: Imported<Kind> }
}[RecordKind]

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

/** Maximum number of records in a call, so no statement takes long. */
export const IMPORT_MAX = 500
/** Maximum number of rows in a call: a client may include its business, and an invoice its payments. */
export const IMPORTED_ROWS_MAX = 2000
