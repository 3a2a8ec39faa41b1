/** The part of a store that works on entire organizations. */
export interface OrganizationStore {
  /**
   * Deletes some of an organization's data, which includes records, events, deliveries, attempts, idempotency entries,
   * document numbers, audit entries, endpoints, limits and API keys. The first call revokes the API keys and removes
   * the endpoints, so from then on no request is admitted and no delivery is made. The last call deletes them. A
   * delivery that is being sent is deleted and its result is dropped. Everything is gone after a complete pass that
   * deleted nothing. Writes that were in progress during the first call may require a second pass.
   */
  deletePart(request: DeletionRequest): Promise<PartResult>

  /**
   * Erases some of a business's personal data. The first call changes the business, so its client counts as
   * changed, and removes the signatures of the given proposals. Subsequent calls scan the events that mention the
   * business. For `business.created` and `client.created` they change the bodies, and for these and lead events the
   * response excerpts of their deliveries. Finally, the replies stored under idempotency keys are changed. No event
   * is published. A pending delivery is sent with the new body, and a replay returns the new reply. Repeating a pass
   * has no effect.
   *
   * @returns `null` if the organization has no business with this id
   */
  forgetPart(request: ForgetRequest): Promise<PartResult | null>
}

/** A request for the next step of deleting an organization. */
export interface DeletionRequest {
  readonly organizationId: string
  /** The maximum number of rows to delete, which keeps each step short. */
  readonly limit: number
  /** The previous step's `next`, or `null` in the first step. */
  readonly after: string | null
}

/** A request for the next step of erasing a business's personal data. */
export interface ForgetRequest {
  readonly organizationId: string
  readonly businessId: string
  /** Proposals whose signature is removed as well. Unknown ids are ignored. */
  readonly proposalIds: readonly string[]
  /** The maximum number of rows to scan, which keeps each step short. */
  readonly limit: number
  /** The previous step's `next`, or `null` in the first step. */
  readonly after: string | null
}

/** The result of a step. */
export interface PartResult {
  /** The number of deleted or changed rows by collection name. */
  readonly counts: Readonly<Record<string, number>>
  /** Where the next step starts, in a format defined by the store, or `null` after the last step. */
  readonly next: string | null
}
