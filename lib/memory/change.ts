import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { render } from '../writes/placeholders.ts'
import { judgeKey, storeReply } from './creation.ts'
import { refuseLarge, storeEvent } from './events.ts'
import type { Memory, Organization } from './state.ts'

/** A judged change that is not written yet. */
export type Decision<Representation, Reason extends string> =
  | { readonly refused: Reason }
  | {
      /** The representation after the change. */
      readonly representation: Representation
      /** Writes the changed record. */
      write(): void
      readonly events: readonly EventRecord[]
      /** Values for the events' placeholders, besides the representation's fields. */
      readonly facts?: Readonly<Record<string, unknown>>
    }

/** A verb's records, and the decision about a change. */
export interface Changing<Stored, Representation, Reason extends string> {
  find(organization: Organization): Stored | undefined
  stateOf(stored: Stored): string
  represent(stored: Stored, organization: Organization): Representation
  decide(stored: Stored, organization: Organization): Decision<Representation, Reason>
}

/** Judges a change and, if the record allows the change, writes the record, the events and the idempotency entry. */
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
  // Rendered before anything is written, because an event that is too large must leave nothing behind.
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
