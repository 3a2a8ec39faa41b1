import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { render } from '../writes/placeholders.ts'
import { judgeKey, refuseOddNumbers, storeReply } from './creation.ts'
import { refuseLarge, storeEvent } from './events.ts'
import type { Memory, Organization } from './state.ts'

/** The reason why a change is rejected, or the result to write. */
export type Decision<Stored, Representation, Reason extends string> =
  | { readonly refused: Reason }
  | {
      /** The changed record. Nothing is written if it's the stored one. */
      readonly record: Stored
      /** Defaults to the record's. */
      readonly representation?: Representation
      /** Defaults to the change's. */
      readonly events?: readonly EventRecord[]
      /** Additional values for the events' placeholders, on top of the record's fields. */
      readonly facts?: Readonly<Record<string, unknown>>
      /** Writes more than the record. */
      also?(): void
    }

/** How a method changes a record. */
export interface Changing<Stored, Representation, Reason extends string> {
  records(organization: Organization): Map<string, Stored>
  stateOf(stored: Stored): string
  represent(stored: Stored, organization: Organization): Representation
  decide(stored: Stored, organization: Organization): Decision<Stored, Representation, Reason>
}

/** Checks whether a change is allowed and, if so, writes the record, the events and the idempotency entry. */
export function applyChange<Stored, Representation extends object, Reason extends string = never>(
  memory: Memory,
  change: Change<unknown>,
  { records, stateOf, represent, decide }: Changing<Stored, Representation, Reason>,
): ChangeOutcome<Representation, Reason> {
  refuseOddNumbers(change.set)
  const { id, recordId, from, idempotency } = change
  const organization = memory.organization(change.organizationId)
  const keyHolder = { memory, organization, recordId: id, idempotency, now: memory.clock() }
  const judged = judgeKey(keyHolder)
  if (judged) return judged
  const stored = records(organization).get(recordId)
  if (stored === undefined) return { outcome: 'not_found' }
  const changes = organization.changes.get(recordId) ?? new Set()
  if (changes.has(id)) return changed(represent(stored, organization))
  const state = stateOf(stored)
  if (from !== null && !from.includes(state)) return { outcome: 'refused', state, reason: 'state' }
  const decision = decide(stored, organization)
  if ('refused' in decision) return { outcome: 'refused', state, reason: decision.refused }
  const { record, representation = represent(record, organization), facts = {} } = decision
  // Render first, because we must not write anything if an event is too large.
  const events = (decision.events ?? change.events).map((event) => {
    return { ...event, body: render(event.body, { ...(representation as object) }, facts) }
  })
  refuseLarge(memory, events)
  if (record !== stored) records(organization).set(recordId, record)
  decision.also?.()
  organization.changes.set(recordId, changes.add(id))
  storeReply(keyHolder, JSON.stringify(representation))
  for (const event of events) storeEvent(memory, organization, event)
  return changed(representation)
}

function changed<Representation>(representation: Representation): {
  readonly outcome: 'changed'
  readonly representation: Representation
} {
  return { outcome: 'changed', representation: structuredClone(representation) }
}
