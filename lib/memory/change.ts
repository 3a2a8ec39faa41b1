import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { EventRecord } from '../writes/event-envelope.ts'
import { render } from '../writes/placeholders.ts'
import { judgeKey, keepReply } from './creation.ts'
import { keepEvent, refuseLarge } from './events.ts'
import type { Memory, Organization } from './state.ts'

/** A judged change that is not written yet. */
export type Decision<Item, Reason extends string> =
  | { readonly refused: Reason }
  | {
      /** The record as the API shows it afterwards. */
      readonly item: Item
      /** Writes the changed record. */
      write(): void
      readonly events: readonly EventRecord[]
      /** Values for the placeholders of the events, beside the fields of the representation. */
      readonly facts?: Readonly<Record<string, unknown>>
    }

/** The records of a verb, and the judgement of a change. */
export interface Changing<Kept, Item, Reason extends string> {
  find(organization: Organization): Kept | undefined
  stateOf(kept: Kept): string
  shown(kept: Kept, organization: Organization): Item
  decide(kept: Kept, organization: Organization): Decision<Item, Reason>
}

/** Judges a change and, if the record allows the change, writes the record, the events and the idempotency entry. */
export function applyChange<Kept, Item extends object, Reason extends string = never>(
  memory: Memory,
  change: Change<unknown>,
  { find, stateOf, shown, decide }: Changing<Kept, Item, Reason>,
): ChangeOutcome<Item, Reason> {
  const { id, recordId, from, idempotency } = change
  const organization = memory.organization(change.organizationId)
  const keyHolder = { memory, organization, recordId: id, idempotency, now: memory.clock() }
  const judged = judgeKey(keyHolder)
  if (judged) return judged
  const kept = find(organization)
  if (kept === undefined) return { outcome: 'not_found' }
  const changes = organization.changes.get(recordId) ?? new Set()
  if (changes.has(id)) return changed(shown(kept, organization))
  const state = stateOf(kept)
  if (from !== null && !from.includes(state)) return { outcome: 'refused', state, reason: 'state' }
  const decision = decide(kept, organization)
  if ('refused' in decision) return { outcome: 'refused', state, reason: decision.refused }
  // Rendered before anything is written, because an event that is too large must leave nothing behind.
  const events = renderAll(decision)
  refuseLarge(memory, events)
  decision.write()
  organization.changes.set(recordId, changes.add(id))
  keepReply(keyHolder, JSON.stringify(decision.item))
  for (const event of events) keepEvent(memory, organization, event)
  return changed(decision.item)
}

function renderAll({
  item,
  events,
  facts,
}: {
  readonly item: object
  readonly events: readonly EventRecord[]
  readonly facts?: object
}): readonly EventRecord[] {
  return events.map((event) => ({ ...event, body: render(event.body, { ...item }, { ...facts }) }))
}

function changed<Item>(item: Item): { readonly outcome: 'changed'; readonly item: Item } {
  return { outcome: 'changed', item: structuredClone(item) }
}
