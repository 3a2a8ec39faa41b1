import { INVALID_INPUT, refused } from '../base/errors.ts'
import type { Creation, KeyReservation } from '../writes/creation.ts'
import { render } from '../writes/placeholders.ts'
import { isInForce } from './admission.ts'
import { refuseLarge, storeEvent } from './events.ts'
import type { Memory, Organization } from './state.ts'

/** The reservation of an idempotency key, and the organization of the reservation. */
export interface KeyHolder {
  readonly memory: Memory
  readonly organization: Organization
  /** Identifies the entry of an earlier call, if the result was lost. */
  readonly recordId: string
  readonly idempotency: Omit<KeyReservation, 'reply'> | null
  /** The moment of the reservation by the store's clock. */
  readonly now: number
}

/** A creation as the store keeps the record, and the organization of the creation. */
export interface Draft<NewRecord> extends Creation<NewRecord>, Omit<KeyHolder, 'idempotency'> {}

/** Copies a creation, so later changes by the caller do not change the stored record. */
export function draft<NewRecord extends { readonly id: string }>(
  memory: Memory,
  creation: Creation<NewRecord>,
): Draft<NewRecord> {
  refuseOddNumbers(creation.record)
  return {
    ...structuredClone(creation),
    memory,
    organization: memory.organization(creation.organizationId),
    recordId: creation.record.id,
    now: memory.clock(),
  }
}

/** Rejects NaN and the infinities, because JSON has no such numbers. */
export function refuseOddNumbers(record: unknown): void {
  if (typeof record === 'number' && !Number.isFinite(record)) {
    throw refused('Cannot write the record', INVALID_INPUT, `${record} is not a valid amount`)
  }
  if (typeof record === 'object' && record !== null) Object.values(record).forEach(refuseOddNumbers)
}

/** Checks a creation's API key, if given, and idempotency key: see {@link judgeKey}. */
export function judgeCreation(
  creation: Draft<unknown>,
): KeyVerdict | { readonly outcome: 'unauthenticated' } | null {
  const { organization, apiKeyId, now } = creation
  const apiKey = organization.apiKeys.get(apiKeyId ?? '')
  const isAllowed = apiKeyId === undefined || (apiKey !== undefined && isInForce(apiKey, now))
  return isAllowed ? judgeKey(creation) : { outcome: 'unauthenticated' }
}

/**
 * Judges a creation or change by the entry of its idempotency key. Returns null if it may go on: without a key, with an expired
 * entry, or with an entry of the same record, written by an earlier call whose result was lost.
 */
export function judgeKey({ organization, idempotency, recordId, now }: KeyHolder): KeyVerdict | null {
  const entry = idempotency && organization.idempotency.get(entryName(idempotency))
  if (!entry || entry.expiresAt <= now || entry.recordId === recordId) return null
  if (entry.fingerprint !== idempotency.fingerprint) return { outcome: 'mismatch' }
  return { outcome: 'replayed', reply: entry.reply }
}

/** The outcome that a live entry of an idempotency key gives. */
export type KeyVerdict =
  | { readonly outcome: 'mismatch' }
  | { readonly outcome: 'replayed'; readonly reply: string }

/**
 * Writes the idempotency entry, the events with the deliveries and, by `write`, the record. Everything that an earlier
 * call of the same creation has written stays.
 *
 * @param write throws only before the first change
 * @param facts values for the placeholders of the reply and the events
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
  if (reply !== null) storeReply(creation, reply)
  for (const event of rendered) storeEvent(memory, organization, event)
  return { outcome: 'created' }
}

/** Adds a record, unless a record with the same id exists. */
export function storeOnce<T>(records: Map<string, T>, id: string, record: T): void {
  if (!records.has(id)) records.set(id, record)
}

/** Writes the idempotency entry of a call with a key. */
export function storeReply({ organization, idempotency, recordId, now }: KeyHolder, reply: string): void {
  if (!idempotency) return
  const name = entryName(idempotency)
  const entry = organization.idempotency.get(name)
  // The window begins with the creation, and not with a repeated call.
  if (entry && entry.recordId === recordId && entry.expiresAt > now) return
  const { fingerprint, windowMs } = idempotency
  organization.idempotency.set(name, { fingerprint, recordId, reply, expiresAt: now + windowMs })
}

/** Names an entry. As JSON, no two pairs of operation and key are equal. */
function entryName({ operation, key }: Pick<KeyReservation, 'operation' | 'key'>): string {
  return JSON.stringify([operation, key])
}
