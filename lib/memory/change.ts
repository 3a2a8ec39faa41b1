import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { render } from '../writes/placeholders.ts'
import { judgeKey, storeReply } from './creation.ts'
import { refuseLarge, storeEvent } from './events.ts'
import type { Memory, Organization } from './state.ts'

/** Whether a change is allowed, and how to write the result. */
export type Decision<Representation, Reason extends string> =
  | { readonly refused: Reason }
  | {
      /** The changed record. */
      readonly representation: Representation
      write(): void
      readonly events: readonly EventRecord[]
      /** Additional values for the events' placeholders, on top of the record's fields. */
      readonly facts?: Readonly<Record<string, unknown>>
    }

/** How a method finds and changes a record. */
export interface Changing<Stored, Representation, Reason extends string> {
  find(organization: Organization): Stored | undefined
  stateOf(stored: Stored): string
  represent(stored: Stored, organization: Organization): Representation
  decide(stored: Stored, organization: Organization): Decision<Representation, Reason>
}

/** Checks whether a change is allowed and, if so, writes the record, the events and the idempotency entry. */
export function applyChange<Stored, Representation extends object, Reason extends string = never>(
  memory: Memory,
  change: Change<unknown>,
  { find, stateOf, represent, decide }: Changing<Stored, Representation, Reason>,
): ChangeOutcome<Representation, Reason> {
  const { id, recordId, from, idempotency } = change
  const organization = memory.organization(change.organizationId)
  const keyHolder = { memory, organization, recordId: id, idempotency, now: memory.clock() }
  const judged = judgeKey(keyHolder)
  if (judged) return judged
  const stored = find(organization)
  if (stored === undefined) return { outcome: 'not_found' }
  const changes = organization.changes.get(recordId) ?? new Set()
  if (changes.has(id)) return changed(represent(stored, organization))
  const state = stateOf(stored)
  if (from !== null && !from.includes(state)) return { outcome: 'refused', state, reason: 'state' }
  const decision = decide(stored, organization)
  if ('refused' in decision) return { outcome: 'refused', state, reason: decision.refused }
  // Render first, because we must not write anything if an event is too large.
  const events = renderAll(decision)
  refuseLarge(memory, events)
  decision.write()
  organization.changes.set(recordId, changes.add(id))
  storeReply(keyHolder, JSON.stringify(decision.representation))
  for (const event of events) storeEvent(memory, organization, event)
  return changed(decision.representation)
}

function renderAll({
  representation,
  events,
  facts,
}: {
  readonly representation: object
  readonly events: readonly EventRecord[]
  readonly facts?: object
}): readonly EventRecord[] {
  return events.map((event) => ({ ...event, body: render(event.body, { ...representation }, { ...facts }) }))
}

function changed<Representation>(representation: Representation): {
  readonly outcome: 'changed'
  readonly representation: Representation
} {
  return { outcome: 'changed', representation: structuredClone(representation) }
}
