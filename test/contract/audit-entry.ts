import type { AuditRecord } from '../../lib/access/audit.ts'
import { createIds } from '../../lib/base/ids.ts'

const ids = createIds()

/** A plausible audit entry for a verb of the store, where the test does not depend on the entry. */
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
