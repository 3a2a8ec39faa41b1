import * as v from 'valibot'
import type { AuditAction, AuditRecord } from '../access/audit.ts'
import * as field from '../base/fields.ts'
import type { Ids } from '../base/ids.ts'

/** The last options of every call that changes something. */
export interface Acting {
  /**
   * The host's name for the person or program that makes the change, for the audit: 1 to 200 characters, a user's id
   * for instance. The actor allows or refuses nothing. Default null.
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

/** The field of {@link Acting}. */
export const ActorSchema: v.OptionalSchema<v.GenericSchema<string | null>, null> = v.optional(
  v.nullable(field.text(1, 200)),
  null,
)

/** @param ids makes the ids of entries */
export function createMakeEntry(ids: Ids): MakeEntry {
  return (action, subjectId, actor, details = {}) => ({ id: ids('aud'), actor, action, subjectId, details })
}
