import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { render } from '../writes/placeholders.ts'
import { judgeKey, keepReply } from './creation.ts'
import { keepEvent, refuseLarge } from './events.ts'
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
      /** Values for the placeholders of the events, beside the fields of the representation. */
      readonly facts?: Readonly<Record<string, unknown>>
    }

/** The records of a verb, and the judgement of a change. */
export interface Changing<Kept, Representation, Reason extends string> {
  find(organization: Organization): Kept | undefined
  stateOf(kept: Kept): string
  represent(kept: Kept, organization: Organization): Representation
  decide(kept: Kept, organization: Organization): Decision<Representation, Reason>
}

/** Judges a change and, if the record allows the change, writes the record, the events and the idempotency entry. */
export function applyChange<Kept, Representation extends object, Reason extends string = never>(
  memory: Memory,
  change: Change<unknown>,
  { find, stateOf, represent, decide }: Changing<Kept, Representation, Reason>,
): ChangeOutcome<Representation, Reason> {
  const { id, recordId, from, idempotency } = change
  const organization = memory.organization(change.organizationId)
  const keyHolder = { memory, organization, recordId: id, idempotency, now: memory.clock() }
  const judged = judgeKey(keyHolder)
  if (judged) return judged
  const kept = find(organization)
  if (kept === undefined) return { outcome: 'not_found' }
  const changes = organization.changes.get(recordId) ?? new Set()
  if (changes.has(id)) return changed(represent(kept, organization))
  const state = stateOf(kept)
  if (from !== null && !from.includes(state)) return { outcome: 'refused', state, reason: 'state' }
  const decision = decide(kept, organization)
  if ('refused' in decision) return { outcome: 'refused', state, reason: decision.refused }
  // Rendered before anything is written, because an event that is too large must leave nothing behind.
  const events = renderAll(decision)
  refuseLarge(memory, events)
  decision.write()
  organization.changes.set(recordId, changes.add(id))
  keepReply(keyHolder, JSON.stringify(decision.representation))
  for (const event of events) keepEvent(memory, organization, event)
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
