import { fill } from '../blanks.ts'
import type { Change, ChangeOutcome } from '../change.ts'
import type { RecordedEvent } from '../envelope.ts'
import { type Claimant, judgeKey, keepReply } from './creation.ts'
import { keepEvent } from './events.ts'
import type { Memory, Organization } from './memory.ts'

/** What a change would make of a record: nothing is written yet. */
export type Decision<Item, Reason extends string> =
  | { readonly refused: Reason }
  | {
      /** The record as the API shows it afterwards. */
      readonly item: Item
      /** Writes it. */
      write(): void
      readonly events: readonly RecordedEvent[]
      /** What the blanks of the events are filled with, beside the item's fields. */
      readonly facts?: Readonly<Record<string, unknown>>
    }

/** Where a change finds its record, and what it does to it. */
export interface Changing<Kept, Item, Reason extends string> {
  find(organization: Organization): Kept | undefined
  stateOf(kept: Kept): string
  shown(kept: Kept, organization: Organization): Item
  decide(kept: Kept, organization: Organization): Decision<Item, Reason>
}

/** Judges a change and, if the record allows it, writes all that belongs to it. */
export function applyChange<Kept, Item extends object, Reason extends string = never>(
  memory: Memory,
  change: Change<unknown>,
  { find, stateOf, shown, decide }: Changing<Kept, Item, Reason>,
): ChangeOutcome<Item, Reason> {
  const { id, recordId, from, idempotency } = change
  const organization = memory.organization(change.organizationId)
  const claimant = { memory, organization, recordId: id, idempotency, now: memory.clock() }
  const judged = judgeKey(claimant)
  if (judged) return judged
  const kept = find(organization)
  if (kept === undefined) return { outcome: 'not_found' }
  const changes = organization.changes.get(recordId) ?? new Set()
  if (changes.has(id)) return changed(shown(kept, organization))
  const state = stateOf(kept)
  if (from !== null && !from.includes(state)) return { outcome: 'refused', state, reason: 'state' }
  const decision = decide(kept, organization)
  if ('refused' in decision) return { outcome: 'refused', state, reason: decision.refused }
  decision.write()
  organization.changes.set(recordId, changes.add(id))
  keepAll(claimant, decision)
  return changed(decision.item)
}

function keepAll(
  claimant: Claimant,
  {
    item,
    events,
    facts,
  }: { readonly item: object; readonly events: readonly RecordedEvent[]; readonly facts?: object },
): void {
  keepReply(claimant, JSON.stringify(item))
  for (const event of events) {
    const body = fill(event.body, { ...item }, { ...facts })
    keepEvent(claimant.memory, claimant.organization, { ...event, body })
  }
}

function changed<Item>(item: Item): { readonly outcome: 'changed'; readonly item: Item } {
  return { outcome: 'changed', item: structuredClone(item) }
}
