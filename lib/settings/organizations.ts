import * as v from 'valibot'
import type { PartResult } from '../access/organizations.ts'
import { NOT_FOUND, refused } from '../base/errors.ts'
import { defineCall, IdSchema } from '../base/host-input.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { callback } from './calls.ts'

/** Options for `organizations.delete`. */
export interface OrganizationDeletion {
  /** Called with the total number of deleted rows after each batch. */
  readonly onProgress?: ((deleted: number) => void) | undefined
}

/** Options for `organizations.forgetBusiness`. */
export interface BusinessForgetting {
  /**
   * Proposals whose signatory should be removed too, up to 1000. You need to pass these because we don't know which
   * proposals belong to the business. Defaults to `[]`.
   */
  readonly proposalIds?: readonly string[] | undefined
  /** Called with the total number of changed rows after each batch. */
  readonly onProgress?: ((changed: number) => void) | undefined
}

/** The result of `organizations.forgetBusiness`. */
export interface ForgottenBusiness {
  /** Number of changed rows by table. */
  readonly changed: Readonly<Record<string, number>>
  /** Sentences that describe what the call can't remove. */
  readonly left: readonly string[]
}

/** Calls that affect an entire organization. */
export interface OrganizationSettings {
  /**
   * Permanently deletes an organization and everything that belongs to it: records, events, deliveries and attempts,
   * idempotency keys, document numbers, audit entries, endpoints and their secrets, limits and API keys. Revokes the
   * API keys and removes the endpoints first, then deletes all rows in batches of 1000. If the call is interrupted,
   * call it again to delete the rest. Make sure your own code has stopped making calls for the organization, since
   * anything it writes in the meantime may or may not be deleted.
   * This can't delete backups, the database's write-ahead log, or what subscribers have already received.
   *
   * @returns the number of deleted rows by table
   */
  delete(organizationId: string, options?: OrganizationDeletion): Promise<Readonly<Record<string, number>>>

  /**
   * Permanently removes a business's personal data. Its name becomes `Deleted`, and all other fields become `null`.
   * This includes stored events (pending deliveries send the new body) and stored responses. Response excerpts are
   * cleared for these events and for events about the business's leads. The signatory of each given proposal becomes
   * `Deleted`. API clients that sync will see a change to the business's client. No event is published.
   * Rows are changed in batches of 1000. If the call is interrupted, call it again to change the rest. Once complete,
   * calling it again is a no-op.
   *
   * @throws `BusinessApiError` with code `not_found` if the organization has no business with this id
   */
  forgetBusiness(
    organizationId: string,
    businessId: string,
    options?: BusinessForgetting,
  ): Promise<ForgottenBusiness>
}

/** Maximum number of rows per batch. Each batch is a single statement. */
const PART_LIMIT = 1000

const PROGRESS = { onProgress: callback<(rows: number) => unknown>() }
const readDelete = defineCall('Cannot delete the organization', PROGRESS)

const readForget = defineCall('Cannot forget the business', {
  ...PROGRESS,
  businessId: IdSchema,
  proposalIds: v.optional(
    v.pipe(v.array(IdSchema, 'must be a list of ids'), v.maxLength(1000, 'must have at most 1000 ids')),
    [],
  ),
})

/** What {@link OrganizationSettings.forgetBusiness} can't remove. */
const LEFT: readonly string[] = [
  'Subscribers and callers of the API keep what they have received, including from a delivery that was still sending.',
  'A delivery that was still sending may log an excerpt of its response afterwards. Repeat the call to empty it.',
  'The id of the business stays; idempotency keys, with the SHA-256 of the inputs, stay until they are purged.',
  'Backups and the write-ahead log of the database keep earlier values, and dead rows do until the next vacuum.',
  "Logs of the host's own code are not read.",
  'Signatures of proposals that were not named stay.',
  'Titles, names and texts of other records, other events that the host has published, and answers to them stay.',
]

/** Creates the organization calls. */
export function createOrganizationSettings({
  organizations,
}: Pick<BusinessApiStore, 'organizations'>): OrganizationSettings {
  return {
    async delete(organizationId, options) {
      const { organizationId: owner, input } = readDelete(organizationId, options)
      const sums: Record<string, number> = {}
      let [after, isEmpty]: [string | null, boolean] = [null, true]
      do {
        if (after === null) isEmpty = true
        const part: PartResult = await organizations.deletePart({
          organizationId: owner,
          limit: PART_LIMIT,
          after,
        })
        after = part.next
        if (totalOf(part.counts) === 0) continue
        isEmpty = false
        addTo(sums, part.counts)
        await input.onProgress?.(totalOf(sums))
      } while (after !== null || !isEmpty)
      return sums
    },

    async forgetBusiness(organizationId, businessId, options) {
      const { action, input, ...owner } = readForget(organizationId, options, { businessId })
      const { onProgress, ...chosen } = input
      const sums: Record<string, number> = {}
      let after: string | null = null
      do {
        const part = await organizations.forgetPart({ ...owner, ...chosen, limit: PART_LIMIT, after })
        if (part === null) {
          throw refused(action, NOT_FOUND, 'the organization has no business with this id')
        }
        addTo(sums, part.counts)
        await onProgress?.(totalOf(sums))
        after = part.next
      } while (after !== null)
      return { changed: sums, left: LEFT }
    },
  }
}

function addTo(sums: Record<string, number>, counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count
}

function totalOf(sums: Readonly<Record<string, number>>): number {
  return Object.values(sums).reduce((sum, count) => sum + count, 0)
}
