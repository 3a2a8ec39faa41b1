import * as v from 'valibot'
import { AUDIT_ACTIONS, type AuditAction, type AuditEntry, type AuditRecord } from '../access/audit.ts'
import * as field from '../base/fields.ts'
import { IdSchema, MomentSchema, OrganizationIdSchema, read, withoutUndefined } from '../base/host-input.ts'
import type { Ids } from '../base/ids.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { type Page, type PageQuery, pageEntries, readPage } from './page.ts'

// --- Types ---

/** The last options of every call that changes something. */
export interface Acting {
  /**
   * The host's name for the person or program that makes the change, for the audit: 1 to 200 characters, a user's id
   * for instance. The actor allows or refuses nothing. Default null.
   */
  readonly actor?: string | null | undefined
}

/** Selects the entries to show. */
export interface AuditQuery extends PageQuery {
  /**
   * The id of a key, an endpoint or a delivery, or the organization's own id for changes of the whole organization.
   * Default: all entries.
   */
  readonly subjectId?: string | undefined
  /** One of `AUDIT_ACTIONS`. Default: all. */
  readonly action?: AuditAction | undefined
  /** The name that the host gave as the `actor`, in full. Default: everybody's. */
  readonly actor?: string | undefined
  /**
   * Made at this moment or later, by the store's clock: a `Date`, or ISO 8601 with a time zone. An entry of a process whose
   * clock differs from the store's by more than a day is not found by `since` and `until`.
   */
  readonly since?: Date | string | undefined
  /** Made before this moment: as `since`. */
  readonly until?: Date | string | undefined
}

/** A page of the audit. */
export type AuditPage = Page<AuditEntry>

/** The changes of an organization's settings, with the actors. */
export interface AuditSettings {
  /**
   * Lists the newest entries that the query selects. Every call that has changed something leaves an entry, and entries
   * are kept for good: no purge removes an entry.
   */
  list(organizationId: string, query?: AuditQuery): Promise<AuditPage>
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

// --- Inputs ---

/** The field of {@link Acting}. */
export const ActorSchema: v.OptionalSchema<v.GenericSchema<string | null>, null> = v.optional(
  v.nullable(field.text(1, 200)),
  null,
)

const ListSchema = v.object({
  organizationId: OrganizationIdSchema,
  subjectId: v.exactOptional(IdSchema),
  action: v.exactOptional(v.picklist(AUDIT_ACTIONS, `must be one of ${AUDIT_ACTIONS.join(', ')}`)),
  actor: v.exactOptional(field.text(1, 200)),
  since: v.exactOptional(MomentSchema),
  until: v.exactOptional(MomentSchema),
  ...pageEntries('aud'),
})

// --- Calls ---

/** @param ids makes the ids of entries */
export function createMakeEntry(ids: Ids): MakeEntry {
  return (action, subjectId, actor, details = {}) => ({ id: ids('aud'), actor, action, subjectId, details })
}

/** Creates the calls that show the audit to administrators. */
export function createAuditSettings(store: Pick<BusinessApiStore, 'audit'>): AuditSettings {
  return {
    async list(organizationId, query = {}) {
      const given = { ...withoutUndefined(query), organizationId }
      const {
        organizationId: owner,
        limit,
        before,
        ...filter
      } = read(ListSchema, given, 'Cannot list the audit')
      return readPage(limit, (count) => store.audit.list(owner, filter, count, before))
    },
  }
}
