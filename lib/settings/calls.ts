import * as v from 'valibot'
import { ActorSchema, type AuditAction, type AuditedRequest, type AuditRecord } from '../access/audit.ts'
import type { Insertion } from '../access/insertion.ts'
import { ALREADY_EXISTS, BusinessApiError, LIMIT_REACHED, refused } from '../base/errors.ts'
import { type Call, type CallRules, defineCall, type Fields, type ReadCall } from '../base/host-input.ts'
import type { Ids } from '../base/ids.ts'

// All calls work the same way: they validate the input, call a single store method that reads something or makes a
// change along with its audit entry, and return the record or throw an error with a code.

/** An audited call with its validated input. */
export interface AuditedCall<Input> extends Call<Input> {
  readonly actor: string | null
}

/** Validates the input of an audited call. @throws `BusinessApiError` with code `invalid_input` */
export type ReadAuditedCall<Input> = (...given: Parameters<ReadCall<Input>>) => AuditedCall<Input>

/**
 * Defines an audited call.
 *
 * @param action how each error message starts, for example `Cannot revoke an API key`
 * @param entries the schemas of all fields except the organization's id and the actor
 */
export function defineAuditedCall<Entries extends v.ObjectEntries>(
  action: string,
  entries: Entries,
  rules?: CallRules,
): ReadAuditedCall<Fields<Entries>> {
  const readCall = defineCall(action, { ...entries, actor: ActorSchema }, rules)
  return (...given) => {
    const { input, ...call } = readCall(...given)
    const { actor, ...fields } = input as { readonly actor: string | null }
    return { ...call, actor, input: fields as Fields<Entries> }
  }
}

/**
 * Returns the fields that audited store methods have in common.
 *
 * @param details must not contain secrets, see `AUDIT_ACTIONS`
 */
export function audited(
  makeEntry: MakeEntry,
  { organizationId, actor }: AuditedCall<unknown>,
  action: AuditAction,
  subjectId: string,
  details?: AuditRecord['details'],
): AuditedRequest {
  return { organizationId, entry: makeEntry(action, subjectId, actor, details) }
}

/** Reasons for error messages, for use after "because". */
interface InsertionRefusals {
  /** The reason if the id is or was taken. */
  readonly taken: string
  /** The reason if a limit is reached. */
  readonly full: string
}

/**
 * Returns the inserted record.
 *
 * @throws `BusinessApiError` with code `already_exists` and the existing record, or `limit_reached`
 */
export function insertedItem<Item extends object>(
  { action }: Call<unknown>,
  insertion: Insertion<Item>,
  refusals: InsertionRefusals,
): Item {
  if (insertion.outcome === 'inserted') return insertion.item
  if (insertion.outcome === 'limit_reached') {
    throw refused(action, LIMIT_REACHED, refusals.full)
  }
  const { item: record } = insertion
  throw new BusinessApiError(ALREADY_EXISTS, `${action} because ${refusals.taken}`, { record })
}

// --- Audit entries ---

/** Options for all calls that change something. */
export interface Acting {
  /**
   * Who is making the change, for the audit entry. Can be any name or id of a person or program, 1 to 200 characters.
   * Has no effect on permissions. Defaults to `null`.
   */
  readonly actor?: string | null | undefined
}

/**
 * Creates the audit entry for a change.
 *
 * @param details must not contain secrets, see `AUDIT_ACTIONS`
 */
export type MakeEntry = (
  action: AuditAction,
  subjectId: string,
  actor: string | null,
  details?: AuditRecord['details'],
) => AuditRecord

/** Returns a schema for a callback. */
export function callback<Callback>(): v.OptionalSchema<v.GenericSchema<Callback>, undefined> {
  return v.optional(v.custom<Callback>((given) => typeof given === 'function', 'must be a function'))
}

/** Schema for an abort signal. */
export const SignalSchema: v.OptionalSchema<v.GenericSchema<AbortSignal>, undefined> = v.optional(
  v.instance(AbortSignal, 'must be an AbortSignal'),
)

/** @param ids generates the entries' ids */
export function createMakeEntry(ids: Ids): MakeEntry {
  return (action, subjectId, actor, details = {}) => ({ id: ids('aud'), actor, action, subjectId, details })
}
