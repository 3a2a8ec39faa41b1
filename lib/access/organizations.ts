/** The slice of a store for organizations as a whole. */
export interface OrganizationStore {
  /**
   * Deletes a part of everything that belongs to an organization: records, events, deliveries, attempts, idempotency entries,
   * document numbers, audit entries, endpoints, limits and API keys. The first part revokes the API keys and removes the
   * endpoints, and the last part deletes them: meanwhile no request is admitted and no delivery is made. A delivery that is being sent is
   * deleted, and its result is dropped. A pass from the first part to the last that deletes nothing leaves nothing; writes that were
   * under way at the first part may need a second pass.
   */
  deletePart(request: DeletionRequest): Promise<PartResult>

  /**
   * Removes personal values of a business, part by part. The first part changes the business, whose client then counts as changed,
   * and the signatures of the given proposals. The following parts scan the events that name the business: `business.created` and
   * `client.created` with their bodies, and these and lead events with the response excerpts of their deliveries. Then come the replies
   * under idempotency keys. Publishes no event. A pending delivery is sent with the new body, and a replay returns the new reply. A
   * repeated pass changes nothing more.
   *
   * @returns null if the organization has no business with this id
   */
  forgetPart(request: ForgetRequest): Promise<PartResult | null>
}

/** One part of an organization's deletion. */
export interface DeletionRequest {
  readonly organizationId: string
  /** Rows to delete at most, so no part takes long. */
  readonly limit: number
  /** The `next` of the part before; null for the first part. */
  readonly after: string | null
}

/** One part of erasing a business's personal values. */
export interface ForgetRequest {
  readonly organizationId: string
  readonly businessId: string
  /** Proposals with a signature that goes too; an unknown id is passed over. */
  readonly proposalIds: readonly string[]
  /** Rows to inspect at most, so no part takes long. */
  readonly limit: number
  /** The `next` of the part before; null for the first part. */
  readonly after: string | null
}

/** The result of a part. */
export interface PartResult {
  /** The number of deleted or changed rows by the name of the collection. */
  readonly counts: Readonly<Record<string, number>>
  /** The place of the next part, in a form of the store's own; null after the last part. */
  readonly next: string | null
}
