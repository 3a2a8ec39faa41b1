import { templateData } from '../writes/event-envelope.ts'
import { placeholder, WHOLE_RECORD } from '../writes/placeholders.ts'
import type { Client } from './clients.ts'
import { eventSchemas } from './event-catalogue.ts'

/** The types with an event for each existing record, in the order of a backfill: a business before its client and its leads. */
export const BACKFILL_TYPES = [
  'business.created',
  'client.created',
  'lead.created',
  'proposal.created',
] as const

/** A type of event that a backfill can send. */
export type BackfillType = (typeof BACKFILL_TYPES)[number]

/** Values of an event that the store finds, beside the record's representation. */
export interface BackfillFacts {
  /** `evt_backfill_` and 32 hexadecimal digits, made from the endpoint, the type and the record. */
  readonly eventId: string
  /** The time of the backfill, by the store's clock. */
  readonly eventCreatedAt: string
  /** The business of the record; the record itself for a business; null for a proposal. */
  readonly businessId: string | null
}

/**
 * Builds the template of a backfill's events: a real event's envelope, rendered with a record's current representation and {@link
 * BackfillFacts}.
 */
export function backfillTemplate(type: BackfillType): string {
  const [kind = ''] = type.split('.')
  const whole = { [kind]: WHOLE_RECORD }
  // Of the record's own id: `businessId` is a fact of every backfill.
  const known = kind === 'business' ? whole : { [`${kind}Id`]: placeholder<Client>('id'), ...whole }
  return JSON.stringify({
    id: placeholder<BackfillFacts>('eventId'),
    type,
    createdAt: placeholder<BackfillFacts>('eventCreatedAt'),
    data: templateData(eventSchemas[type], known),
  })
}
