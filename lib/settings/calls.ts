import * as v from 'valibot'
import { ActorSchema, type AuditAction, type AuditedRequest, type AuditRecord } from '../access/audit.ts'
import type { Insertion } from '../access/insertion.ts'
import { ALREADY_EXISTS, BusinessApiError, LIMIT_REACHED, refused } from '../base/errors.ts'
import { type Call, type CallRules, defineCall, type Fields, type ReadCall } from '../base/host-input.ts'
import type { Ids } from '../base/ids.ts'

// Each call goes the same way: the input is checked, one verb of the store reads, or makes the change together with its audit
// entry, and the outcome becomes the record or a typed error.

/** A call that leaves an audit entry, with its checked input. */
export interface AuditedCall<Input> extends Call<Input> {
  readonly actor: string | null
}

/** Reads the input of a call that leaves an audit entry. @throws `BusinessApiError` with code `invalid_input` */
export type ReadAuditedCall<Input> = (...given: Parameters<ReadCall<Input>>) => AuditedCall<Input>

/**
 * Defines a call that leaves an audit entry.
 *
 * @param action the beginning of every message: `Cannot revoke an API key`
 * @param entries the schemas of the fields beside the organization's id and the actor
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
 * Gives the fields that every verb with an audit entry takes.
 *
 * @param details nothing secret: see `AUDIT_ACTIONS`
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

/** The ends of error messages, after "because". */
interface InsertionRefusals {
  /** The reason if another record has or had the id. */
  readonly taken: string
  /** The reason if a limit is reached. */
  readonly full: string
}

/**
 * Gives the record that an insertion has made.
 *
 * @throws `BusinessApiError` with code `already_exists`, and the record with this id, or `limit_reached`
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

/** The last options of every call that changes something. */
export interface Acting {
  /**
   * The host's name for the person or program that makes the change, for the audit: 1 to 200 characters, a user's id
   * for instance. The actor allows or rejects nothing. Default null.
   */
  readonly actor?: string | null | undefined
}

/**
 * Makes the entry that a change is to leave.
 *
 * @param details nothing secret: see `AUDIT_ACTIONS`
 */
export type MakeEntry = (
  action: AuditAction,
  subjectId: string,
  actor: string | null,
  details?: AuditRecord['details'],
) => AuditRecord

/** Returns a schema for one of the host's functions. */
export function callback<Callback>(): v.OptionalSchema<v.GenericSchema<Callback>, undefined> {
  return v.optional(v.custom<Callback>((given) => typeof given === 'function', 'must be a function'))
}

/** The schema of a signal that ends a call. */
export const SignalSchema: v.OptionalSchema<v.GenericSchema<AbortSignal>, undefined> = v.optional(
  v.instance(AbortSignal, 'must be an AbortSignal'),
)

/** @param ids makes the ids of entries */
export function createMakeEntry(ids: Ids): MakeEntry {
  return (action, subjectId, actor, details = {}) => ({ id: ids('aud'), actor, action, subjectId, details })
}
