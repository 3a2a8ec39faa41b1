import type { AuditEntry, AuditRecord, AuditStore } from '../access/audit.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { isMatch, listRecords } from './record-list.ts'
import type { Memory, Organization } from './state.ts'

/** Creates the in-memory slice for the audit log. */
export function createAuditStore(memory: Memory): AuditStore {
  return {
    async list(organizationId, filter, limit, before) {
      const isWanted = (entry: AuditEntry): boolean => isMatch(entry, entry.at, { ...filter })
      return listRecords(memory.organization(organizationId).audit.values(), { limit, before, isWanted })
    },

    async recordTest(organizationId, entry, { max, windowMs }) {
      const organization = memory.organization(organizationId)
      if (isRecorded(organization, entry)) return true
      const begin = memory.clock() - windowMs
      const isRecentTest = ({ action, at }: AuditEntry) =>
        action === 'endpoint.test_sent' && Date.parse(at) > begin
      if ([...organization.audit.values()].filter(isRecentTest).length >= max) return false
      recordEntry(memory, organization, entry)
      return true
    },
  }
}

/** Returns `true` if an earlier call, whose response was lost, already made the change. */
export function isRecorded({ audit }: Organization, { id }: AuditRecord): boolean {
  return audit.has(id)
}

/** Returns `true` if the subject already has an entry for this change. */
export function isChangeMade({ audit }: Organization, subjectId: string, changeId: string): boolean {
  return [...audit.values()].some(
    (entry) => entry.subjectId === subjectId && entry.details.changeId === changeId,
  )
}

/** Records an entry, unless an entry with the same id already exists. */
export function recordEntry(memory: Memory, { audit }: Organization, entry: AuditRecord): void {
  if (audit.has(entry.id)) return
  audit.set(entry.id, buildEntry(memory, entry))
}

/** Records an entry shared by several calls, each adding to the counts in `details`. */
export function countInEntry(
  memory: Memory,
  { audit }: Organization,
  entry: AuditRecord,
  counted: Readonly<Record<string, number>>,
): void {
  const present = audit.get(entry.id) ?? buildEntry(memory, entry)
  const sums = Object.entries(counted).map(([name, count]) => {
    return [name, Number(present.details[name] ?? 0) + count] as const
  })
  audit.set(entry.id, { ...present, details: { ...present.details, ...Object.fromEntries(sums) } })
}

function buildEntry(memory: Memory, { id, actor, action, subjectId, details }: AuditRecord): AuditEntry {
  return {
    id,
    at: toTimestamp(memory.clock()),
    actor,
    action,
    subjectId,
    details: structuredClone(details),
  }
}
