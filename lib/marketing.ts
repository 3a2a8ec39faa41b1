import * as v from 'valibot'
import * as field from './fields.ts'

// Marketing campaigns live in the host; only their events pass through this library.

// --- Events (specification, section 6) ---

const campaignId = field.prose(64, "The host's campaign.", 'cmp_spring')
const source = field.prose(200, 'Where the visitor came from.', 'newsletter')
const provider = field.word('The advertising platform.', 'google_ads')

function campaign(status: string) {
  return {
    campaignId,
    name: field.prose(200, 'Its name.', 'Spring offer'),
    status: field.word('Where it stands now.', status),
  }
}

/** The events of marketing. */
export const marketingEvents = {
  'marketing.campaign_created': v.object(campaign('draft')),
  'marketing.campaign_activated': v.object(campaign('active')),
  'marketing.campaign_paused': v.object(campaign('paused')),
  'marketing.campaign_completed': v.object(campaign('completed')),
  'marketing.campaign_submitted': v.object({ ...campaign('submitted'), provider }),
  'marketing.campaign_failed': v.object({
    ...campaign('failed'),
    reason: field.prose(1000, 'Why it failed.', 'The provider refused the budget.'),
  }),
  'marketing.lead_captured': v.object({
    captureId: field.prose(64, "The host's capture.", 'cap_881'),
    campaignId,
    source,
    businessId: v.nullable(field.id('biz', 'The business, when one is known.')),
    leadId: v.nullable(field.id('lead', 'The lead, when one was made.')),
  }),
  'marketing.attribution_captured': v.object({
    attributionId: field.prose(64, "The host's attribution.", 'att_17'),
    campaignId,
    leadId: v.nullable(field.id('lead', 'The lead it is attributed to, when known.')),
    source,
    medium: field.prose(200, 'By which medium.', 'email'),
    capturedAt: field.timestamp('When it was captured.'),
  }),
  'marketing.provider_sync_completed': v.object({
    syncId: field.prose(64, "The host's run.", 'syn_204'),
    provider,
    startedAt: field.timestamp('When it started.'),
    completedAt: field.timestamp('When it ended.'),
    records: field.count(0, 'How many records were read.', 318),
  }),
}
