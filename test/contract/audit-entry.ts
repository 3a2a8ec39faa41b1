import type { AuditRecord } from '../../lib/access/audit.ts'
import { createIds } from '../../lib/base/ids.ts'

const ids = createIds()

/** Returns a plausible audit entry for tests that don't depend on it. */
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
