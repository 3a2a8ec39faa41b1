import { INVALID_INPUT, refused } from '../base/errors.ts'
import type { Creation, KeyReservation } from '../writes/creation.ts'
import { render } from '../writes/placeholders.ts'
import { isInForce } from './admission.ts'
import { refuseLarge, storeEvent } from './events.ts'
import type { Memory, Organization } from './state.ts'

/** An idempotency key's reservation within an organization. */
export interface KeyHolder {
  readonly memory: Memory
  readonly organization: Organization
  /** Identifies the entry of an earlier call whose response was lost. */
  readonly recordId: string
  readonly idempotency: Omit<KeyReservation, 'reply'> | null
  /** When the reservation is made, by the store's clock. */
  readonly now: number
}

/** A copy of a creation, including the organization. */
export interface Draft<NewRecord> extends Creation<NewRecord>, Omit<KeyHolder, 'idempotency'> {}

/** Copies a creation, so the caller can't change the stored record later. */
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

/** Rejects NaN and infinity, which JSON doesn't support. */
export function refuseOddNumbers(record: unknown): void {
  if (typeof record === 'number' && !Number.isFinite(record)) {
    throw refused('Cannot write the record', INVALID_INPUT, `${record} is not a valid amount`)
  }
  if (typeof record === 'object' && record !== null) Object.values(record).forEach(refuseOddNumbers)
}

/** Checks the creation's API key (if any) and idempotency key (see {@link judgeKey}). */
export function judgeCreation(
  creation: Draft<unknown>,
): KeyVerdict | { readonly outcome: 'unauthenticated' } | null {
  const { organization, apiKeyId, now } = creation
  const apiKey = organization.apiKeys.get(apiKeyId ?? '')
  const isAllowed = apiKeyId === undefined || (apiKey !== undefined && isInForce(apiKey, now))
  return isAllowed ? judgeKey(creation) : { outcome: 'unauthenticated' }
}

/**
 * Checks the idempotency entry for a creation or change. Returns `null` (proceed) if there's no key, the entry has
 * expired, or an earlier call for the same record made the entry.
 */
export function judgeKey({ organization, idempotency, recordId, now }: KeyHolder): KeyVerdict | null {
  const entry = idempotency && organization.idempotency.get(entryName(idempotency))
  if (!entry || entry.expiresAt <= now || entry.recordId === recordId) return null
  if (entry.fingerprint !== idempotency.fingerprint) return { outcome: 'mismatch' }
  return { outcome: 'replayed', reply: entry.reply }
}

/** The outcome if the idempotency key is already in use. */
export type KeyVerdict =
  | { readonly outcome: 'mismatch' }
  | { readonly outcome: 'replayed'; readonly reply: string }

/**
 * Writes the idempotency entry, the events and deliveries, and calls `write` for the record. Keeps anything that an
 * earlier call for the same creation has already written.
 *
 * @param write may only throw before it changes anything
 * @param facts values for the placeholders in the reply and the events
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

/** Adds a record, unless a record with the same id already exists. */
export function storeOnce<T>(records: Map<string, T>, id: string, record: T): void {
  if (!records.has(id)) records.set(id, record)
}

/** Writes the idempotency entry if the call has a key. */
export function storeReply({ organization, idempotency, recordId, now }: KeyHolder, reply: string): void {
  if (!idempotency) return
  const name = entryName(idempotency)
  const entry = organization.idempotency.get(name)
  // The window starts at the creation. Repeating the call doesn't extend it.
  if (entry && entry.recordId === recordId && entry.expiresAt > now) return
  const { fingerprint, windowMs } = idempotency
  organization.idempotency.set(name, { fingerprint, recordId, reply, expiresAt: now + windowMs })
}

/** Returns an entry's name. We use JSON so that each combination of operation and key is unique. */
function entryName({ operation, key }: Pick<KeyReservation, 'operation' | 'key'>): string {
  return JSON.stringify([operation, key])
}
