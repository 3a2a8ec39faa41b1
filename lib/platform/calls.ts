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

// All calls of the platform follow the same steps: validate the input, prepare the record and its events, call a store
// method, and return the record or throw an error with a code.

/** Options of all calls. */
export interface CallOptions {
  /**
   * 1 to 200 visible ASCII characters. If the same call is made again with the same key within 7 days, it does nothing
   * and returns the record of the first call (specification, section 4, rule 4). Keys are separate for each
   * organization and call, and they never conflict with the keys of API requests. Optional.
   */
  readonly idempotencyKey?: string | undefined
}

/** Dependencies shared by all calls. */
export interface CallTools {
  readonly ids: Ids
  readonly clock: Clock
  /** How long to wait for a call with the same idempotency key, in ms, or `null` if the transaction decides. */
  readonly waitMs: number | null
  /** Returns the number of decimals of a currency. */
  readonly minorUnits: (currency: string) => number
  /** Returns the trace context of the call. */
  readonly traceparent: () => string | undefined
}

const keyRequirement = `must be 1 to ${IDEMPOTENCY_KEY_MAX} visible ASCII characters`

const KEY = {
  idempotencyKey: v.exactOptional(
    v.pipe(v.string(keyRequirement), v.check(isIdempotencyKey, keyRequirement)),
  ),
}

/** A call that writes something, with its validated input. */
export interface WriteCall<Input> extends Call<Input> {
  /** The reservation of the idempotency key, if there is one. */
  readonly reservation: ChangeKeyReservation | null
  readonly context: WriteContext
}

/**
 * Builds a call that writes something. The call throws `BusinessApiError` with code `invalid_input` if the
 * input is invalid.
 *
 * @param name the name of the call, for example `invoices.issue`. Idempotency keys are scoped to it
 * @param action the start of all error messages, for example `Cannot issue the invoice`
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

/** Creates a function for building calls that share these tools. */
export function createBuildWrite({ ids, clock, waitMs, traceparent }: CallTools): BuildWrite {
  return (name, action, entries, work, rules) => {
    const readCall = defineCall(action, { ...entries, ...KEY }, rules)
    return async (organizationId, given) => {
      // Defaults that depend on the current time are applied later, so the fingerprint of the same input is stable.
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

/** Returns the representation of a new record. If the store has to assign its number, it has a placeholder instead. */
export function numberedRepresentation<
  NewRecord extends { readonly number: NewNumber; readonly minorUnits?: number },
>(record: NewRecord): Omit<NewRecord, 'minorUnits'> & { readonly number: string } {
  const { minorUnits: _, ...fields } = record
  return {
    ...fields,
    number: typeof record.number === 'string' ? record.number : placeholder<NewRecord>('number'),
  }
}

/** Creates a record and returns it. If the idempotency key was used before, returns the record of the first call. */
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

/** What a store's reason means to the caller, as an error code and the end of the message after "because". */
export type Refusal = readonly [code: ErrorCode, text: string, fields?: readonly string[]]

/** A change to a record. By default it's allowed in any state and publishes no events. */
type Changed<Changes> = Pick<Change<Changes>, 'recordId' | 'set'> &
  Partial<Pick<Change<Changes>, 'from' | 'events'>>

/**
 * Changes a record and returns it. If the idempotency key was used before, returns the result of the first call.
 *
 * @param apply the store method to call
 * @param refusals the meanings of the reasons that are specific to this method
 * @throws `BusinessApiError` with code `not_found`, `invalid_state` or that of the reason
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
