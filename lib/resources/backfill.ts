import { placeholder, type Template, WHOLE_RECORD } from '../writes/placeholders.ts'
import type { Client } from './clients.ts'
import type { EventData } from './event-catalogue.ts'
import type { Lead } from './leads.ts'
import type { Proposal } from './proposals.ts'

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

const businessId = placeholder<BackfillFacts>('businessId')

const data: { readonly [Type in BackfillType]: Template<EventData<Type>> } = {
  'business.created': { businessId, business: WHOLE_RECORD },
  'client.created': { clientId: placeholder<Client>('id'), businessId, client: WHOLE_RECORD },
  'lead.created': { leadId: placeholder<Lead>('id'), businessId, lead: WHOLE_RECORD },
  'proposal.created': {
    proposalId: placeholder<Proposal>('id'),
    number: placeholder<Proposal>('number'),
    version: placeholder<Proposal>('version'),
    status: placeholder<Proposal>('status'),
    proposal: WHOLE_RECORD,
  },
}

/**
 * Builds the template of the events that a backfill makes of the present records: the envelope of a real event, rendered with a
 * record's representation and with {@link BackfillFacts}.
 */
export function backfillTemplate(type: BackfillType): string {
  return JSON.stringify({
    id: placeholder<BackfillFacts>('eventId'),
    type,
    createdAt: placeholder<BackfillFacts>('eventCreatedAt'),
    data: data[type],
  })
}
