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

// Every call of the platform has the same steps: check the input, prepare the record and the events, ask one verb of the
// store, and turn the outcome into the record or a typed error.

/** Options of every call. */
export interface CallOptions {
  /**
   * 1 to 200 visible ASCII characters. The same call with the same key within 7 days gives the record of the first call
   * and does nothing again (specification, section 4, rule 4). A key belongs to the organization and the call, and never
   * collides with a key of an API request. Default none.
   */
  readonly idempotencyKey?: string | undefined
}

/** The tools that all calls share. */
export interface CallTools {
  readonly ids: Ids
  readonly clock: Clock
  /** Maximum wait for an unfinished call with the same idempotency key, in ms; null: as long as the transaction may wait. */
  readonly waitMs: number | null
  /** Decimals of a currency. */
  readonly minorUnits: (currency: string) => number
  /** Reads the trace around a call. */
  readonly traceparent: () => string | undefined
}

const keyRequirement = `must be 1 to ${IDEMPOTENCY_KEY_MAX} visible ASCII characters`

const KEY = {
  idempotencyKey: v.exactOptional(
    v.pipe(v.string(keyRequirement), v.check(isIdempotencyKey, keyRequirement)),
  ),
}

/** A call that writes, with its checked input. */
export interface WriteCall<Input> extends Call<Input> {
  /** The reservation of the idempotency key; null without a key. */
  readonly reservation: ChangeKeyReservation | null
  readonly context: WriteContext
}

/**
 * Builds a call that writes. The call throws `BusinessApiError` with code `invalid_input` for unusable input.
 *
 * @param name as the host writes it, `invoices.issue`; the idempotency keys of the call belong to this name
 * @param action the beginning of every error message: `Cannot issue the invoice`
 * @param entries the schemas of the fields beside the organization's id and the idempotency key
 * @param work gets the checked input
 */
export type BuildWrite = <Entries extends v.ObjectEntries, Result>(
  name: string,
  action: string,
  entries: Entries,
  work: (call: WriteCall<Fields<Entries>>) => Promise<Result>,
  rules?: CallRules,
) => (organizationId: string, given: unknown) => Promise<Result>

/** Gives the calls of a resource the tools that they share. */
export function createBuildWrite({ ids, clock, waitMs, traceparent }: CallTools): BuildWrite {
  return (name, action, entries, work, rules) => {
    const readCall = defineCall(action, { ...entries, ...KEY }, rules)
    return async (organizationId, given) => {
      // The defaults that depend on the moment come later: the same input has the same fingerprint a minute on.
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

/** Builds the representation of a new record, with a placeholder for a number that the store has to find. */
export function numberedRepresentation<
  NewRecord extends { readonly number: NewNumber; readonly minorUnits?: number },
>(record: NewRecord): Omit<NewRecord, 'minorUnits'> & { readonly number: string } {
  const { minorUnits: _, ...fields } = record
  return {
    ...fields,
    number: typeof record.number === 'string' ? record.number : placeholder<NewRecord>('number'),
  }
}

/** Writes a new record and returns it; with a used idempotency key, returns the first call's record. */
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

/** The meaning of a store's reason for the caller: a code, and the end of the message after "because". */
export type Refusal = readonly [code: ErrorCode, text: string, fields?: readonly string[]]

/** A change of a record. Default: from any state, without events. */
type Changed<Changes> = Pick<Change<Changes>, 'recordId' | 'set'> &
  Partial<Pick<Change<Changes>, 'from' | 'events'>>

/**
 * Changes a record and returns it as changed; with a used idempotency key, returns the first call's result.
 *
 * @param apply the verb of the store
 * @param refusals the meanings of the verb's own reasons
 * @throws `BusinessApiError` `not_found`, `invalid_state`, or the code of the reason
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
