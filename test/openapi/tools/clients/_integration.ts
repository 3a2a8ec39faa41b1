/** What a generated client did with a server: the same for all of them. */
export interface Integration {
  readonly clientName: string
  /** Whether the same Idempotency-Key gave the same client. */
  readonly isSameClient: boolean
  readonly leadStage: string
  /** The records in the lists of clients, leads, invoices, proposals and projects. */
  readonly listed: readonly number[]
  /** The name of a room that was created and then fetched, by routes of the host's own. */
  readonly room: string
  /** The error of a client with a name of one letter. */
  readonly refusal: string
}

/** The data of the calls. */
export const NEW_CLIENT = { name: 'Atlas Ceramics', city: 'Tunis', email: 'hello@atlas.example' }
export const IDEMPOTENCY_KEY = 'form-submission-1'
export const NEW_ROOM = { name: 'Atlas' }
export const SHORT_NAME = { name: 'A' }
