import { templateData } from '../writes/event-envelope.ts'
import { placeholder, WHOLE_RECORD } from '../writes/placeholders.ts'
import type { Client } from './clients.ts'
import { eventSchemas } from './event-catalogue.ts'

/** Event types with one event per record, in backfill order. Businesses come first. */
export const BACKFILL_TYPES = [
  'business.created',
  'client.created',
  'lead.created',
  'proposal.created',
] as const

/** An event type that a backfill can send. */
export type BackfillType = (typeof BACKFILL_TYPES)[number]

/** Values that the store adds to an event on top of the record's fields. */
export interface BackfillFacts {
  /** `evt_backfill_` followed by 32 hex digits derived from the endpoint, the type and the record. */
  readonly eventId: string
  /** The time of the backfill, by the store's clock. */
  readonly eventCreatedAt: string
  /** The id of the record's business, or of the record itself if it's a business. `null` for proposals. */
  readonly businessId: string | null
}

/**
 * Builds the template for a backfill's events. It looks like a real event's envelope and is rendered with a record's
 * current fields and {@link BackfillFacts}.
 */
export function backfillTemplate(type: BackfillType): string {
  const [kind = ''] = type.split('.')
  const whole = { [kind]: WHOLE_RECORD }
  // A business doesn't need its own id here, because every backfill provides `businessId`.
  const known = kind === 'business' ? whole : { [`${kind}Id`]: placeholder<Client>('id'), ...whole }
  return JSON.stringify({
    id: placeholder<BackfillFacts>('eventId'),
    type,
    createdAt: placeholder<BackfillFacts>('eventCreatedAt'),
    data: templateData(eventSchemas[type], known),
  })
}
