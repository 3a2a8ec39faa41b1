import { BusinessApiError, INVALID_INPUT } from '../base/errors.ts'
import type { Creation, KeyReservation } from '../writes/creation.ts'
import { render } from '../writes/placeholders.ts'
import { keepEvent, refuseLarge } from './events.ts'
import type { Memory, Organization } from './state.ts'

/** Who claims an idempotency key, and where. */
export interface KeyHolder {
  readonly memory: Memory
  readonly organization: Organization
  /** Lets an attempt whose answer was lost recognize its own entry. */
  readonly recordId: string
  readonly idempotency: Omit<KeyReservation, 'reply'> | null
  /** The moment of the claim by the store's clock. */
  readonly now: number
}

/** A creation as the store keeps it, and where. */
export interface Draft<NewRecord> extends Creation<NewRecord>, Omit<KeyHolder, 'idempotency'> {}

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
export function refuseOddNumbers(record: unknown): void {
  if (typeof record === 'number' && !Number.isFinite(record)) {
    throw new BusinessApiError(INVALID_INPUT, `Cannot write the record as ${record} is no amount`)
  }
  if (typeof record === 'object' && record !== null) Object.values(record).forEach(refuseOddNumbers)
}

/**
 * What the idempotency key of a creation says about it; null when it may go on: there is no key, its entry has expired,
 * or the entry is of this very record, by an earlier attempt whose answer was lost.
 */
export function judgeKey({ organization, idempotency, recordId, now }: KeyHolder): KeyVerdict | null {
  const entry = idempotency && organization.idempotency.get(entryName(idempotency))
  if (!entry || entry.expiresAt <= now || entry.recordId === recordId) return null
  if (entry.fingerprint !== idempotency.fingerprint) return { outcome: 'mismatch' }
  return { outcome: 'replayed', reply: entry.reply }
}

/** What an idempotency key that has a live entry says. */
export type KeyVerdict =
  | { readonly outcome: 'mismatch' }
  | { readonly outcome: 'replayed'; readonly reply: string }

/**
 * Writes the idempotency entry, the events with their deliveries and, by `write`, the record. What an earlier attempt of
 * this very creation has written stands.
 *
 * @param write throws only before it has written anything
 * @param facts what the placeholders of the reply and the events are filled with
 */
export function commit(
  creation: Draft<unknown>,
  write: () => void,
  facts: Readonly<Record<string, unknown>> = {},
): { readonly outcome: 'created' } {
  const { memory, organization, events, idempotency } = creation
  const reply = idempotency && render(idempotency.reply, facts)
  const rendered = events.map((event) => ({ ...event, body: render(event.body, facts) }))
  refuseLarge(memory, rendered)
  write()
  if (reply !== null) keepReply(creation, reply)
  for (const event of rendered) keepEvent(memory, organization, event)
  return { outcome: 'created' }
}

/** Adds a record unless there is one of its id. */
export function keepOnce<T>(records: Map<string, T>, id: string, record: T): void {
  if (!records.has(id)) records.set(id, record)
}

/** Writes the idempotency entry, if there is a key. */
export function keepReply({ organization, idempotency, recordId, now }: KeyHolder, reply: string): void {
  if (!idempotency) return
  const name = entryName(idempotency)
  const entry = organization.idempotency.get(name)
  // The window counts from the creation, not from a second attempt of it.
  if (entry && entry.recordId === recordId && entry.expiresAt > now) return
  const { fingerprint, windowMs } = idempotency
  organization.idempotency.set(name, { fingerprint, recordId, reply, expiresAt: now + windowMs })
}

/** JSON, so that no operation and key can be mistaken for another pair. */
function entryName({ operation, key }: Pick<KeyReservation, 'operation' | 'key'>): string {
  return JSON.stringify([operation, key])
}
