/** What a generated client did with a server, which must be the same for all of them. */
export interface Integration {
  readonly clientName: string
  /** Whether the same Idempotency-Key returned the same client. */
  readonly isSameClient: boolean
  readonly leadStage: string
  /** The number of records in the lists of clients, leads, invoices, proposals and projects. */
  readonly listed: readonly number[]
  /** The name of a room that was created and then fetched using the host's routes. */
  readonly room: string
  /** The error for a client with a one-letter name. */
  readonly refusal: string
}

/** The data used in calls. */
export const NEW_CLIENT = { name: 'Atlas Ceramics', city: 'Tunis', email: 'hello@atlas.example' }
export const IDEMPOTENCY_KEY = 'form-submission-1'
export const NEW_ROOM = { name: 'Atlas' }
export const SHORT_NAME = { name: 'A' }
