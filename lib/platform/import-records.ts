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

// The records that a host can import, with its own ids of the kind, `_`, and 1 to 59 letters, digits,
// hyphens and underscores.

// --- Inputs ---

/** An id that can be used as a cursor for the API's lists. */
function ownId(kind: IdKind) {
  const requirement = `must be ${kind}_ and 1 to 59 letters, digits, hyphens and underscores`
  const pattern = new RegExp(`^${kind}_[A-Za-z0-9_-]{1,59}$`)
  return v.pipe(
    v.string(requirement),
    v.check((id) => pattern.test(id), requirement),
  )
}

/** Makes optional fields of the API nullable. If absent, they are `null`. */
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

/** An object that is validated separately, so that messages refer to its own fields. */
function part<Schema extends v.GenericSchema>() {
  return v.custom<Given<Schema>>((given) => typeof given === 'object' && given !== null, 'must be an object')
}

const BusinessFields = v.object({
  id: ownId('biz'),
  name: field.text(1, 150),
  ...nullable(optionalFields),
})

/** The fields of a proposal's signature in an import. */
export const SignatureFields = v.object({ signedBy: TitleSchema, signedAt: MomentSchema })

/** The fields of an invoice's payment in an import. */
export const PartFields = v.object({ id: ownId('pay'), amount: MoneySchema, receivedAt: MomentSchema })

const MinorUnitsSchema = v.exactOptional(whole(0, 4))

/** The fields of each kind in an import. Unlike a new business, an imported one can have a name of one character. */
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
  // Plain records have the fields of the resource and an id.
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

/** The input of a schema. Optional fields can be `undefined`. */
type Given<Schema extends v.GenericSchema> = {
  readonly [Field in keyof v.InferInput<Schema>]:
    | v.InferInput<Schema>[Field]
    | (object extends Pick<v.InferInput<Schema>, Field> ? undefined : never)
}

/**
 * The fields of a record to import.
 *
 * - A `client` has either its `business` or the `businessId` of one that was imported before. Revenues default to 0.
 * - A `proposal` or `invoice` has your own number. `minorUnits` defaults to that of the currency. For proposals, the
 *   version defaults to 1 and the monthly total to 0, and only accepted ones can have a signature.
 * - Amounts of an `invoice` are decimal strings and must be consistent with its status. Nothing may be due if it's
 *   `paid`, something must be due if it's `partially_paid` or `overdue`, and nothing may be paid otherwise. The sum of
 *   `payments` must be `amountPaid`. Leave them out if the payments are unknown or imported as separate records.
 * - A `payment` belongs to an invoice that was imported before. It's part of the invoice's `amountPaid` and doesn't
 *   change the invoice. If it was reversed, `reversedBy` is the id of a payment with the negative amount.
 */
export type Imported<Kind extends RecordKind> = Given<(typeof IMPORT_FIELDS)[Kind]>

/** A record to import. Derived fields such as `scoreBand` and `amountDue` are ignored. */
export type ImportRecord = {
  [Kind in RecordKind]: { readonly kind: Kind; readonly record: Imported<Kind> }
}[RecordKind]

/** The result of an import. */
export interface ImportReport {
  /** Number of records that were written, even if only in part. */
  readonly added: number
  /** Number of records that already existed with the same values in all parts. */
  readonly known: number
  /**
   * Records whose id already existed with different values, which were kept. If only the included business of a client
   * or a payment of an invoice differs, that's listed instead.
   */
  readonly different: readonly {
    /** Index of the record in the import, starting at 0. */
    readonly index: number
    readonly kind: RecordKind
    readonly id: string
  }[]
}

/** Imports existing records. See `Platform.import`. */
export type ImportCall = (organizationId: string, records: readonly ImportRecord[]) => Promise<ImportReport>

/** Maximum number of records per call, so that no statement takes too long. */
export const IMPORT_MAX = 500
/** Maximum number of rows per call. A client can include its business and an invoice its payments. */
export const IMPORTED_ROWS_MAX = 2000
