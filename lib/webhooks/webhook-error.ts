/** The request has no signature header. Thrown by `verifyWebhook`. */
export const SIGNATURE_MISSING = 'signature_missing'

/** The signature header doesn't consist of a single numeric `t` and at least one `v1`. Thrown by `verifyWebhook`. */
export const SIGNATURE_MALFORMED = 'signature_malformed'

/** None of the `v1` values match the body and `t` with any of the secrets. Thrown by `verifyWebhook`. */
export const SIGNATURE_MISMATCH = 'signature_mismatch'

/** The signature is valid, but it's too old or too far in the future. Could be a replay. Thrown by `verifyWebhook`. */
export const SIGNATURE_EXPIRED = 'signature_expired'

/** The request method isn't POST. Thrown by `receiveWebhook`. Respond with 405. */
export const WEBHOOK_METHOD = 'webhook_method'

/** The body is larger than `maxBodyBytes`. Thrown by `receiveWebhook`. Respond with 413. */
export const WEBHOOK_TOO_LARGE = 'webhook_too_large'

/** The body ended early, or it's signed but isn't an event. Thrown by `receiveWebhook`. Respond with 400. */
export const WEBHOOK_MALFORMED = 'webhook_malformed'

/** All codes of {@link WebhookError}. */
export type WebhookErrorCode =
  | typeof SIGNATURE_MISSING
  | typeof SIGNATURE_MALFORMED
  | typeof SIGNATURE_MISMATCH
  | typeof SIGNATURE_EXPIRED
  | typeof WEBHOOK_METHOD
  | typeof WEBHOOK_TOO_LARGE
  | typeof WEBHOOK_MALFORMED

/** Thrown if a request can't be trusted. `code` is the failed check, `status` is the HTTP status to respond with. */
export class WebhookError extends Error {
  override readonly name = 'WebhookError'
  readonly code: WebhookErrorCode
  readonly status: number

  constructor(code: WebhookErrorCode, reason: string, status = 400) {
    super(`Cannot accept the webhook because ${reason}`)
    this.code = code
    this.status = status
  }
}
