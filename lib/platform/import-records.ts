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

// The records that a host can import. Ids are up to the host, but must be the kind, `_`, then 1 to 59 letters, digits,
// hyphens or underscores.

// --- Inputs ---

/** An id that works as a cursor in the API's lists. */
function ownId(kind: IdKind) {
  const requirement = `must be ${kind}_ and 1 to 59 letters, digits, hyphens and underscores`
  const pattern = new RegExp(`^${kind}_[A-Za-z0-9_-]{1,59}$`)
  return v.pipe(
    v.string(requirement),
    v.check((id) => pattern.test(id), requirement),
  )
}

/** Makes the API's optional fields nullable. They default to `null`. */
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

/** An object that is validated separately, so messages refer to its own fields. */
function part<Schema extends v.GenericSchema>() {
  return v.custom<Given<Schema>>((given) => typeof given === 'object' && given !== null, 'must be an object')
}

const BusinessFields = v.object({
  id: ownId('biz'),
  name: field.text(1, 150),
  ...nullable(optionalFields),
})

/** The fields of a proposal's signature when importing. */
export const SignatureFields = v.object({ signedBy: TitleSchema, signedAt: MomentSchema })

/** The fields of an invoice's payment when importing. */
export const PartFields = v.object({ id: ownId('pay'), amount: MoneySchema, receivedAt: MomentSchema })

const MinorUnitsSchema = v.exactOptional(whole(0, 4))

/** The fields of each kind when importing. Unlike new businesses, imported ones can have a one-letter name. */
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
  // Plain records have an id and the resource's fields.
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

/** A schema's input type. Optional fields can be `undefined`. */
type Given<Schema extends v.GenericSchema> = {
  readonly [Field in keyof v.InferInput<Schema>]:
    | v.InferInput<Schema>[Field]
    | (object extends Pick<v.InferInput<Schema>, Field> ? undefined : never)
}

/**
 * The fields of a record to import.
 *
 * - A `client` has either its `business`, or the `businessId` of a previously imported business. Revenues default
 *   to 0.
 * - A `proposal` or `invoice` has your own number. `minorUnits` defaults to the currency's. Proposals default to
 *   version 1 and a monthly total of 0. Only accepted proposals can have a signature.
 * - An `invoice` has decimal strings as amounts, which must match its status: a `paid` invoice has nothing due, a
 *   `partially_paid` or `overdue` invoice has something due, and on any other invoice nothing has been paid. `payments`
 *   must add up to `amountPaid`. Omit `payments` if they are unknown or imported separately.
 * - A `payment` belongs to a previously imported invoice, whose `amountPaid` already includes the payment, so the
 *   invoice doesn't change. If the payment was reversed, `reversedBy` is the id of a payment with the negative amount.
 */
export type Imported<Kind extends RecordKind> = Given<(typeof IMPORT_FIELDS)[Kind]>

/** A record to import. Derived fields such as `scoreBand` and `amountDue` are ignored. */
export type ImportRecord = {
  [Kind in RecordKind]: { readonly kind: Kind; readonly record: Imported<Kind> }
}[RecordKind]

/** The result of an import. */
export interface ImportReport {
  /** Number of records that were written at least in part. */
  readonly added: number
  /** Number of records that already existed with identical values in all parts. */
  readonly known: number
  /**
   * Records whose id already exists with different values. These aren't overwritten. If the only difference is in a
   * client's embedded business or in an invoice's payment, that part is listed instead.
   */
  readonly different: readonly {
    /** The record's index in the import, starting at 0. */
    readonly index: number
    readonly kind: RecordKind
    readonly id: string
  }[]
}

/** Imports existing records. See `Platform.import`. */
export type ImportCall = (organizationId: string, records: readonly ImportRecord[]) => Promise<ImportReport>

/** Maximum number of records per call. Keeps statements short. */
export const IMPORT_MAX = 500
/** Maximum number of rows per call, including embedded businesses and payments. */
export const IMPORTED_ROWS_MAX = 2000
