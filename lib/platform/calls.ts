import * as v from 'valibot'
import {
  type ErrorCode,
  IDEMPOTENCY_KEY_IN_USE,
  IDEMPOTENCY_KEY_REUSED,
  INVALID_STATE,
  refused,
} from '../base/errors.ts'
import { type Call, type CallRules, defineCall, type Fields, found } from '../base/host-input.ts'
import type { Clock, Ids } from '../base/ids.ts'
import type { NewNumber } from '../resources/document-numbers.ts'
import type { Change, ChangeKeyReservation, ChangeOutcome } from '../writes/change.ts'
import type { Creation, CreationOutcome, NumberedOutcome, PreparedCreation } from '../writes/creation.ts'
import {
  fingerprint,
  IDEMPOTENCY_KEY_MAX,
  IDEMPOTENCY_WINDOW_MS,
  isIdempotencyKey,
} from '../writes/idempotency.ts'
import { placeholder } from '../writes/placeholders.ts'
import type { WriteContext } from '../writes/write-context.ts'

// All platform calls follow the same steps: validate the input, prepare the record and its events, call a store method,
// and return the record or throw an error with a code.

/** Options for all calls. */
export interface CallOptions {
  /**
   * 1 to 200 visible ASCII characters. If you repeat a call with the same key within 7 days, it's a no-op that returns
   * the first call's record (see section 4 of the spec, rule 4). Keys are scoped to the organization and call, and
   * can't conflict with the keys of API requests. Optional.
   */
  readonly idempotencyKey?: string | undefined
}

/** Dependencies shared by all calls. */
export interface CallTools {
  readonly ids: Ids
  readonly clock: Clock
  /** How long to wait for a call with the same idempotency key, in ms, or `null` to leave that to the transaction. */
  readonly waitMs: number | null
  /** Returns a currency's number of decimal places. */
  readonly minorUnits: (currency: string) => number
  /** Returns the call's trace context. */
  readonly traceparent: () => string | undefined
}

const keyRequirement = `must be 1 to ${IDEMPOTENCY_KEY_MAX} visible ASCII characters`

const KEY = {
  idempotencyKey: v.exactOptional(
    v.pipe(v.string(keyRequirement), v.check(isIdempotencyKey, keyRequirement)),
  ),
}

/** A call that writes something, including its validated input. */
export interface WriteCall<Input> extends Call<Input> {
  /** The reservation for the call's idempotency key, if it has one. */
  readonly reservation: ChangeKeyReservation | null
  readonly context: WriteContext
}

/**
 * Builds a call that writes something. The call throws `BusinessApiError` with code `invalid_input` if its input
 * is invalid.
 *
 * @param name the call's name, for example `invoices.issue`. Idempotency keys are scoped to it
 * @param action how each error message starts, for example `Cannot issue the invoice`
 * @param entries the schemas of all fields except the organization's id and the idempotency key
 * @param work called with the validated input
 */
export type BuildWrite = <Entries extends v.ObjectEntries, Result>(
  name: string,
  action: string,
  entries: Entries,
  work: (call: WriteCall<Fields<Entries>>) => Promise<Result>,
  rules?: CallRules,
) => (organizationId: string, given: unknown) => Promise<Result>

/** Creates a function that builds calls with these tools. */
export function createBuildWrite({ ids, clock, waitMs, traceparent }: CallTools): BuildWrite {
  return (name, action, entries, work, rules) => {
    const readCall = defineCall(action, { ...entries, ...KEY }, rules)
    return async (organizationId, given) => {
      // Time-dependent defaults are applied later to keep the fingerprint stable.
      const { input: fields, ...call } = readCall(organizationId, given)
      const { idempotencyKey, ...input } = fields as { readonly idempotencyKey?: string }
      const reservation =
        idempotencyKey === undefined
          ? null
          : {
              operation: name,
              key: idempotencyKey,
              fingerprint: fingerprint(input),
              windowMs: IDEMPOTENCY_WINDOW_MS,
              waitMs,
            }
      const context = { ids, now: clock(), traceparent: traceparent() }
      return work({ ...call, input: input as Fields<typeof entries>, reservation, context })
    }
  }
}

/** Returns a new record's representation, with a placeholder if the store has to assign the number. */
export function numberedRepresentation<
  NewRecord extends { readonly number: NewNumber; readonly minorUnits?: number },
>(record: NewRecord): Omit<NewRecord, 'minorUnits'> & { readonly number: string } {
  const { minorUnits: _, ...fields } = record
  return {
    ...fields,
    number: typeof record.number === 'string' ? record.number : placeholder<NewRecord>('number'),
  }
}

/** Creates a record and returns it. If the idempotency key was already used, returns the first call's record. */
export async function created<NewRecord, Representation extends object>(
  { action, organizationId, reservation }: WriteCall<unknown>,
  { record, events, representation }: PreparedCreation<NewRecord, Representation>,
  create: (creation: Creation<NewRecord>) => Promise<CreationOutcome | NumberedOutcome>,
): Promise<Representation> {
  const idempotency = reservation && { ...reservation, reply: JSON.stringify(representation) }
  const outcome = await create({ organizationId, record, events, idempotency })
  if (outcome.outcome !== 'created') return replayed(action, outcome)
  return 'number' in outcome ? { ...representation, number: outcome.number } : representation
}

/** How to explain a store's rejection to the caller: an error code, and how the message continues after "because". */
export type Refusal = readonly [code: ErrorCode, text: string, fields?: readonly string[]]

/** A change to a record. By default, it's allowed in any state and doesn't publish events. */
type Changed<Changes> = Pick<Change<Changes>, 'recordId' | 'set'> &
  Partial<Pick<Change<Changes>, 'from' | 'events'>>

/**
 * Changes a record and returns it. If the idempotency key was already used, returns the first call's result.
 *
 * @param apply the store method to call
 * @param refusals explains the rejections that only this method can return
 * @throws `BusinessApiError` with code `not_found`, `invalid_state` or the rejection's code
 */
export async function changed<Changes, Representation, Reason extends string = never>(
  { action, organizationId, reservation, context }: WriteCall<unknown>,
  { recordId, set, from = null, events = [] }: Changed<Changes>,
  apply: (change: Change<Changes>) => Promise<ChangeOutcome<Representation, Reason>>,
  refusals: Readonly<Record<Reason, Refusal>>,
): Promise<Representation> {
  const id = context.ids('chg')
  const outcome = await apply({ organizationId, id, recordId, from, set, events, idempotency: reservation })
  switch (outcome.outcome) {
    case 'changed':
      return outcome.representation
    case 'not_found':
      return found<Representation>(null, action)
    case 'refused': {
      const { reason, state } = outcome
      const refusal: Refusal = reason === 'state' ? [INVALID_STATE, `it is ${state}`] : refusals[reason]
      throw refused(action, ...refusal)
    }
    default:
      return replayed(action, outcome)
  }
}

function replayed<Representation>(
  action: string,
  outcome: Exclude<CreationOutcome, { readonly outcome: 'created' }> | { readonly outcome: string },
): Representation {
  if ('reply' in outcome) return JSON.parse(outcome.reply) as Representation
  throw outcome.outcome === 'in_progress'
    ? refused(action, IDEMPOTENCY_KEY_IN_USE, 'another call with its idempotency key is still running')
    : refused(action, IDEMPOTENCY_KEY_REUSED, 'its idempotency key was already used with different content')
}
