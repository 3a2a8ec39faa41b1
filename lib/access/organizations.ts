/** The slice of a store for organizations as a whole. */
export interface OrganizationStore {
  /**
   * Deletes a part of everything that belongs to an organization: records, events, deliveries, attempts, idempotency entries,
   * document numbers, audit entries, endpoints, limits and API keys. The first part revokes the API keys and removes the
   * endpoints, and the last part deletes them: meanwhile no request is admitted and no delivery is made. A delivery in flight is
   * deleted, and its result is dropped. A repeated call goes on.
   *
   * @param limit rows to delete at most, so that no part takes long
   * @returns the number of deleted rows by the name of the collection; empty: nothing of the organization is left
   */
  deletePart(organizationId: string, limit: number): Promise<Readonly<Record<string, number>>>
}
