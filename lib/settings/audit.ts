import * as v from 'valibot'
import { AUDIT_ACTIONS, type AuditEntry, type AuditFilter } from '../access/audit.ts'
import * as field from '../base/fields.ts'
import { defineCall, IdSchema, MomentSchema, oneOf } from '../base/host-input.ts'
import { type Page, type PageQuery, pageEntries, readPage } from '../base/page.ts'
import type { BusinessApiStore } from '../business-store.ts'

// --- Types ---

/** Filtering and paging options for audit entries. */
export interface AuditQuery extends AuditFilter<Date | string>, PageQuery {}

/** A page of audit entries. */
export type AuditPage = Page<AuditEntry>

/** Shows who changed an organization's settings. */
export interface AuditSettings {
  /** Lists matching entries, newest first. Every call that changes something writes one. Entries are never purged. */
  list(organizationId: string, query?: AuditQuery): Promise<AuditPage>
}

// --- Inputs ---

const readList = defineCall('Cannot list the audit', {
  subjectId: v.exactOptional(IdSchema),
  action: v.exactOptional(oneOf(AUDIT_ACTIONS)),
  actor: v.exactOptional(field.text(1, 200)),
  since: v.exactOptional(MomentSchema),
  until: v.exactOptional(MomentSchema),
  ...pageEntries('aud'),
})

// --- Calls ---

/** Creates the calls for reading audit entries. */
export function createAuditSettings(store: Pick<BusinessApiStore, 'audit'>): AuditSettings {
  return {
    async list(organizationId, query) {
      const { organizationId: owner, input } = readList(organizationId, query)
      const { limit, before, ...filter } = input
      return readPage(limit, (count) => store.audit.list(owner, filter, count, before))
    },
  }
}
