import * as v from 'valibot'
import { blank } from '../blanks.ts'
import type { Change, ChangeClaim, ChangeOutcome } from '../change.ts'
import type { CreationOutcome, IdempotencyClaim, NumberedOutcome } from '../creation.ts'
import {
  BusinessApiError,
  type ErrorCode,
  IDEMPOTENCY_KEY_IN_USE,
  IDEMPOTENCY_KEY_REUSED,
  INVALID_STATE,
} from '../errors.ts'
import { fingerprint, IDEMPOTENCY_KEY_MAX, IDEMPOTENCY_WINDOW_MS, isIdempotencyKey } from '../idempotency.ts'
import type { Clock, Ids } from '../ids.ts'
import { found, OrganizationIdSchema, read, withoutUndefined } from '../input.ts'
import type { Making } from '../making.ts'
import type { NewNumber } from '../numbering.ts'

// Every call of the platform is made in the same way: its input is checked, the record and the events are prepared, one
// verb of the store is asked, and its outcome becomes the record or a typed error.

/** What every call takes. */
export interface CallOptions {
  /**
   * 1 to 200 visible ASCII characters. The same call with the same key within 7 days gives the record of the first one
   * and does nothing again (specification, section 4, rule 4). Keys belong to the organization and the call; those of
   * API requests are others. Default none.
   */
  readonly idempotencyKey?: string | undefined
}

/** What the calls are made with. */
export interface CallTools {
  readonly ids: Ids
  readonly clock: Clock
  /** How long to wait for another call with the same idempotency key; null: as long as the transaction may. */
  readonly waitMs: number | null
  /** Decimals of a currency. */
  readonly minorUnits: (currency: string) => number
}

const keyRequirement = `must be 1 to ${IDEMPOTENCY_KEY_MAX} visible ASCII characters`

const CallSchema = v.object({
  organizationId: OrganizationIdSchema,
  idempotencyKey: v.exactOptional(
    v.pipe(v.string(keyRequirement), v.check(isIdempotencyKey, keyRequirement)),
  ),
})

/** A call whose input has been checked. */
export interface Call<Input> {
  /** What is being done: `Cannot issue the invoice`. */
  readonly action: string
  readonly organizationId: string
  readonly input: Input
  /** The claim of its idempotency key, if it has one. */
  readonly claim: ChangeClaim | null
  readonly making: Making
}

/** Reads the inputs of calls of one kind. */
export type ReadCall<Input> = (organizationId: string, given: unknown) => Call<Input>

/**
 * Defines a call.
 *
 * @param name as the host writes it, `invoices.issue`: what the call's idempotency keys belong to
 * @param action what is being done: `Cannot issue the invoice`
 * @param schema of its input, none of its fields nested
 */
export function defineCall<Schema extends v.GenericSchema<object, object>>(
  name: string,
  action: string,
  schema: Schema,
  { ids, clock, waitMs }: CallTools,
): ReadCall<v.InferOutput<Schema>> {
  return (organizationId, given) => {
    const fields = { ...withoutUndefined(Object(given)), organizationId }
    // The defaults that depend on the moment come later: the same input has the same fingerprint a minute on.
    const { idempotencyKey, organizationId: owner } = read(CallSchema, fields, action)
    const input = read(schema, fields, action)
    const claim =
      idempotencyKey === undefined
        ? null
        : {
            operation: name,
            key: idempotencyKey,
            fingerprint: fingerprint(input),
            windowMs: IDEMPOTENCY_WINDOW_MS,
            waitMs,
          }
    return { action, organizationId: owner, input, claim, making: { ids, now: clock() } }
  }
}

/** The claim of a creation, with the record as the reply. */
export function withReply(claim: ChangeClaim | null, item: unknown): IdempotencyClaim | null {
  return claim && { ...claim, reply: JSON.stringify(item) }
}

/** A new record as the API shows it: its number left blank where it is the store's to find. */
export function numberedItem<NewRecord extends { readonly number: NewNumber; readonly minorUnits?: number }>(
  record: NewRecord,
): Omit<NewRecord, 'minorUnits'> & { readonly number: string } {
  const { minorUnits: _, ...shown } = record
  return { ...shown, number: typeof record.number === 'string' ? record.number : blank('number') }
}

/** A change that a call makes. */
export function changeOf<Changes>(
  { organizationId, claim, making }: Call<unknown>,
  change: Pick<Change<Changes>, 'recordId' | 'from' | 'set' | 'events'>,
): Change<Changes> {
  return { organizationId, id: making.ids('chg'), idempotency: claim, ...change }
}

/** What a creation has made, now or the first time. */
export function createdItem<Item>(
  { action }: Call<unknown>,
  outcome: CreationOutcome | NumberedOutcome,
  item: Item,
): Item {
  if (outcome.outcome === 'created') return 'number' in outcome ? { ...item, number: outcome.number } : item
  return replayed(action, outcome)
}

/** What a reason of the store's means to the caller: a code, and the end of the message after "as". */
export type Refusal = readonly [code: ErrorCode, text: string]

/**
 * What a change has made of the record, now or the first time.
 *
 * @param refusals what the verb's own reasons mean
 * @throws `BusinessApiError` `not_found`, `invalid_state`, or that of the reason
 */
export function changedItem<Item, Reason extends string = never>(
  { action }: Call<unknown>,
  outcome: ChangeOutcome<Item, Reason>,
  refusals: Readonly<Record<Reason, Refusal>>,
): Item {
  switch (outcome.outcome) {
    case 'changed':
      return outcome.item
    case 'not_found':
      return found<Item>(null, action)
    case 'refused': {
      const { reason, state } = outcome
      const refusal: Refusal = reason === 'state' ? [INVALID_STATE, `it is ${state}`] : refusals[reason]
      const [code, text] = refusal
      throw new BusinessApiError(code, `${action} as ${text}`)
    }
    default:
      return replayed(action, outcome)
  }
}

function replayed<Item>(
  action: string,
  outcome: Exclude<CreationOutcome, { readonly outcome: 'created' }> | { readonly outcome: string },
): Item {
  if ('reply' in outcome) return JSON.parse(outcome.reply) as Item
  throw outcome.outcome === 'in_progress'
    ? new BusinessApiError(
        IDEMPOTENCY_KEY_IN_USE,
        `${action} as another call with its idempotency key has not ended`,
      )
    : new BusinessApiError(
        IDEMPOTENCY_KEY_REUSED,
        `${action} as its idempotency key was already used with different content`,
      )
}
