import type { OrganizationStore } from '../access/organizations.ts'
import { type Business, forgottenBusiness } from '../resources/businesses.ts'
import { forgotten } from '../resources/columns.ts'
import { TYPES_WITHOUT_BUSINESS } from '../resources/event-catalogue.ts'
import { proposalTable } from '../resources/proposals.ts'
import { touchClient } from './businesses.ts'
import type { Memory, Organization } from './state.ts'

/** Creates the in-memory slice for organizations. Everything is done in a single step. */
export function createOrganizationStore(memory: Memory): OrganizationStore {
  return {
    async deletePart({ organizationId }) {
      const organization = memory.organization(organizationId)
      const collections = { ...organization, ...organization.records }
      const counts = Object.entries(collections).flatMap(([name, collection]): [string, number][] => {
        return collection instanceof Map && collection.size > 0 ? [[name, collection.size]] : []
      })
      for (const delivery of organization.deliveries.values()) {
        memory.move(delivery, { state: 'cancelled', claim: null })
      }
      for (const { record } of organization.apiKeys.values()) memory.digests.delete(record.digest)
      memory.remove(organizationId)
      return { counts: Object.fromEntries(counts), next: null }
    },

    async forgetPart({ organizationId, businessId, proposalIds }) {
      const organization = memory.organization(organizationId)
      const business = organization.records.business.get(businessId)
      if (!business) return null
      const counts = {
        businesses: forgetRecord(organization, business),
        proposals: forgetProposals(organization, proposalIds),
        ...forgetEvents(organization, businessId),
        idempotency: forgetReplies(organization, businessId),
      }
      return { counts, next: null }
    },
  }
}

function forgetRecord(organization: Organization, before: Business): number {
  const business = forgottenBusiness(before)
  if (JSON.stringify({ ...before, ...business }) === JSON.stringify(before)) return 0
  organization.records.business.set(business.id, business)
  touchClient(organization, business.id)
  return 1
}

function forgetProposals({ records: { proposal: proposals } }: Organization, ids: readonly string[]): number {
  const personal = [...new Set(ids)].flatMap((id) => {
    const proposal = proposals.get(id)
    return proposal && proposal.signedBy !== null ? [proposal] : []
  })
  const changed = personal.filter((proposal) => proposal.signedBy !== forgotten(proposalTable).signedBy)
  for (const proposal of changed) proposals.set(proposal.id, { ...proposal, ...forgotten(proposalTable) })
  return changed.length
}

function forgetEvents(
  { events }: Organization,
  businessId: string,
): { readonly events: number; readonly attempts: number } {
  let [changed, attempts] = [0, 0]
  for (const [id, event] of events) {
    const { record, deliveries } = event
    if (TYPES_WITHOUT_BUSINESS.includes(record.type) || !mentions(record.body, businessId)) continue
    const body = forgetIn(record.body, businessId)
    if (body !== record.body) {
      const forgotten = Object.freeze({ ...record, body })
      events.set(id, { ...event, record: forgotten })
      for (const delivery of deliveries) delivery.event = forgotten
      changed++
    }
    for (const { attemptLog } of deliveries) {
      for (const [index, attempt] of attemptLog.entries()) {
        if (attempt.bodyExcerpt === '' && attempt.location === null && attempt.headers === null) continue
        attemptLog[index] = { ...attempt, bodyExcerpt: '', location: null, headers: null }
        attempts++
      }
    }
  }
  return { events: changed, attempts }
}

function forgetReplies({ idempotency }: Organization, businessId: string): number {
  let changed = 0
  for (const [name, entry] of idempotency) {
    const reply = forgetIn(entry.reply, businessId)
    if (reply === entry.reply) continue
    idempotency.set(name, { ...entry, reply })
    changed++
  }
  return changed
}

function mentions(text: string, businessId: string): boolean {
  return text.includes(JSON.stringify(businessId))
}

/** Erases a business from a JSON string. Returns the same string if it doesn't contain the business. */
function forgetIn(text: string, businessId: string): string {
  if (!mentions(text, businessId)) return text
  let isShown = false
  const forgotten = JSON.stringify(
    JSON.parse(text, (_, value) => {
      if (value?.id !== businessId || typeof value.name !== 'string') return value
      isShown = true
      return forgottenBusiness(value)
    }),
  )
  return isShown ? forgotten : text
}
