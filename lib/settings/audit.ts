import * as v from 'valibot'
import type { AuditAction, AuditEntry, AuditRecord } from '../access/audit.ts'
import * as field from '../base/fields.ts'
import { IdSchema, OrganizationIdSchema, read, withoutUndefined } from '../base/host-input.ts'
import type { Ids } from '../base/ids.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { type Page, type PageQuery, pageEntries, readPage } from './page.ts'

// --- Types ---

/** What every call takes in its last options that changes something. */
export interface Acting {
  /**
   * Who does it, for the audit: 1 to 200 characters that mean something to the host, a user's id for instance. Nothing is
   * allowed or refused by it. Default null.
   */
  readonly actor?: string | null | undefined
}

/** Which entries are to be shown. */
export interface AuditQuery extends PageQuery {
  /** Of one key, endpoint or delivery, or of the organization itself by its own id. Default all. */
  readonly subjectId?: string | undefined
}

/** A page of the audit. */
export type AuditPage = Page<AuditEntry>

/** Who changed what in an organization's settings. */
export interface AuditSettings {
  /**
   * The newest entries that the query lets through. There is one for every call that has changed something, and they are
   * kept for good: no purge removes one.
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
  ...pageEntries('aud'),
})

// --- Calls ---

/** @param ids makes the ids of entries */
export function createMakeEntry(ids: Ids): MakeEntry {
  return (action, subjectId, actor, details = {}) => ({ id: ids('aud'), actor, action, subjectId, details })
}

/** The audit as administrators see it. */
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
