/** The part of a store that works on entire organizations. */
export interface OrganizationStore {
  /**
   * Deletes a batch of an organization's data: records, events, deliveries, attempts, idempotency entries, document
   * numbers, audit entries, endpoints, limits and API keys. The first call revokes the API keys and removes the
   * endpoints, so no requests are admitted and nothing is delivered from then on. The last call deletes both.
   * Deliveries in progress are deleted, too, and the results are dropped. The deletion is complete after a full pass
   * that deletes nothing. Writes in progress during the first call may require a second pass.
   */
  deletePart(request: DeletionRequest): Promise<PartResult>

  /**
   * Erases a batch of a business's personal data. The first call updates the business, so the client counts as changed,
   * and removes the signatures from the given proposals. Subsequent calls scan the events that mention the business,
   * and update the bodies of `business.created` and `client.created` events as well as the response excerpts in
   * deliveries of those events and of lead events. Finally, stored idempotency replies are updated. No event is
   * published. Pending deliveries are sent with the new body, and replays return the new reply. Passes are idempotent.
   *
   * @returns `null` if the organization doesn't have a business with this id
   */
  forgetPart(request: ForgetRequest): Promise<PartResult | null>
}

/** A request for the next step in deleting an organization. */
export interface DeletionRequest {
  readonly organizationId: string
  /** Maximum number of rows to delete. Keeps each step short. */
  readonly limit: number
  /** The `next` value from the previous step, or `null` in the first step. */
  readonly after: string | null
}

/** A request for the next step in erasing a business's personal data. */
export interface ForgetRequest {
  readonly organizationId: string
  readonly businessId: string
  /** Proposals whose signatures are removed as well. Unknown ids are ignored. */
  readonly proposalIds: readonly string[]
  /** Maximum number of rows to scan. Keeps each step short. */
  readonly limit: number
  /** The `next` value from the previous step, or `null` in the first step. */
  readonly after: string | null
}

/** The result of one step. */
export interface PartResult {
  /** Number of deleted or changed rows, by collection name. */
  readonly counts: Readonly<Record<string, number>>
  /** Where the next step starts, in a store-specific format, or `null` after the last step. */
  readonly next: string | null
}
