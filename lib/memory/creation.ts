import type { Creation, CreationOutcome, IdempotencyClaim } from '../creation.ts'
import { ALREADY_EXISTS, BusinessApiError, INVALID_INPUT } from '../errors.ts'
import { keepEvent } from './events.ts'
import type { Memory, Organization } from './memory.ts'

/** A creation as the store keeps it, and where. */
export interface Draft<NewRecord> extends Creation<NewRecord> {
  readonly memory: Memory
  readonly organization: Organization
  readonly recordId: string
  /** The moment of the creation by the store's clock. */
  readonly now: number
}

/** Copies a creation, so that what the caller changes afterwards does not change what is kept. */
export function draft<NewRecord>(
  memory: Memory,
  creation: Creation<NewRecord>,
  idOf: (record: NewRecord) => string,
): Draft<NewRecord> {
  refuseOddNumbers(creation.record)
  return {
    ...structuredClone(creation),
    memory,
    organization: memory.organization(creation.organizationId),
    recordId: idOf(creation.record),
    now: memory.clock(),
  }
}

/** NaN and the infinities are no numbers of JSON. */
function refuseOddNumbers(record: unknown): void {
  if (typeof record === 'number' && !Number.isFinite(record)) {
    throw new BusinessApiError(INVALID_INPUT, `Cannot create the record as ${record} is no amount`)
  }
  if (typeof record === 'object' && record !== null) Object.values(record).forEach(refuseOddNumbers)
}

/**
 * What the idempotency key of a creation says about it; null when it may go on: there is no key, its entry has expired,
 * or the entry is of this very record, by an earlier attempt whose answer was lost.
 */
export function judgeKey({
  organization,
  idempotency,
  recordId,
  now,
}: Draft<unknown>): CreationOutcome | null {
  const entry = idempotency && organization.idempotency.get(entryName(idempotency))
  if (!entry || entry.expiresAt <= now || entry.recordId === recordId) return null
  if (entry.fingerprint !== idempotency.fingerprint) return { outcome: 'mismatch' }
  return { outcome: 'replayed', reply: entry.reply }
}

/**
 * Writes the idempotency entry, the events with their deliveries and, by `write`, the record. What an earlier attempt of this very creation has
 * written stands.
 *
 * @param write throws only before it has written anything
 */
export function commit(creation: Draft<unknown>, write: () => void): CreationOutcome {
  const { memory, organization, events } = creation
  write()
  keepReply(creation)
  for (const event of events) keepEvent(memory, organization, event)
  return { outcome: 'created' }
}

/** Adds a record unless there is one of its id. */
export function keepOnce<T>(records: Map<string, T>, id: string, record: T): void {
  if (!records.has(id)) records.set(id, record)
}

/**
 * Refuses a record whose number another record of the organization has.
 *
 * @throws `BusinessApiError` with code `already_exists`
 */
export function refuseTakenNumber(
  records: ReadonlyMap<string, { readonly id: string; readonly number: string }>,
  { id, number }: { readonly id: string; readonly number: string },
): void {
  if (records.has(id)) return
  for (const other of records.values()) {
    if (other.number === number) {
      throw new BusinessApiError(ALREADY_EXISTS, 'Cannot create the record as its number is taken')
    }
  }
}

function keepReply({ organization, idempotency, recordId, now }: Draft<unknown>): void {
  if (!idempotency) return
  const name = entryName(idempotency)
  const entry = organization.idempotency.get(name)
  // The window counts from the creation, not from a second attempt of it.
  if (entry && entry.recordId === recordId && entry.expiresAt > now) return
  const { fingerprint, reply, windowMs } = idempotency
  organization.idempotency.set(name, { fingerprint, recordId, reply, expiresAt: now + windowMs })
}

/** JSON, so that no operation and key can be mistaken for another pair. */
function entryName({ operation, key }: IdempotencyClaim): string {
  return JSON.stringify([operation, key])
}
