import type { AuditRecord } from '../lib/access/audit.ts'
import { createIds } from '../lib/base/ids.ts'

const ids = createIds()

/** The entry that a verb of the store is to leave, where a test says nothing of it. */
export function newEntry(changes: Partial<AuditRecord> = {}): AuditRecord {
  return {
    id: ids('aud'),
    actor: null,
    action: 'endpoint.updated',
    subjectId: 'of_no_interest',
    details: {},
    ...changes,
  }
}
