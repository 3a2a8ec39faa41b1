import type { AuditEntry, AuditRecord, AuditStore } from '../audit.ts'
import { toTimestamp } from '../making.ts'
import type { Memory, Organization } from './memory.ts'

/** Audit entries in memory. */
export function createAuditStore(memory: Memory): AuditStore {
  return {
    async list(organizationId, { subjectId }, limit, before) {
      return [...memory.organization(organizationId).audit.values()]
        .filter((entry) => subjectId === undefined || entry.subjectId === subjectId)
        .filter(({ id }) => before === null || id < before)
        .sort((one, other) => (one.id < other.id ? 1 : -1))
        .slice(0, limit)
        .map((entry) => structuredClone(entry))
    },

    async record(organizationId, entry) {
      recordEntry(memory, memory.organization(organizationId), entry)
    },
  }
}

/** Whether the change of this entry has been made by an earlier attempt, whose answer was lost. */
export function isRecorded({ audit }: Organization, { id }: AuditRecord): boolean {
  return audit.has(id)
}

/** Records an entry, unless there is one of its id. */
export function recordEntry(memory: Memory, { audit }: Organization, entry: AuditRecord): void {
  if (audit.has(entry.id)) return
  audit.set(entry.id, keep(memory, entry))
}

/** Records an entry that several verbs have in common, and adds up how many each has had sent again. */
export function countInEntry(
  memory: Memory,
  { audit }: Organization,
  entry: AuditRecord,
  replayed: number,
): void {
  const present = audit.get(entry.id) ?? keep(memory, entry)
  const before = Number(present.details.replayed ?? 0)
  audit.set(entry.id, { ...present, details: { ...present.details, replayed: before + replayed } })
}

function keep(memory: Memory, { id, actor, action, subjectId, details }: AuditRecord): AuditEntry {
  return {
    id,
    at: toTimestamp(memory.clock()),
    actor,
    action,
    subjectId,
    details: structuredClone(details),
  }
}
