/** The request carries no signature header. Thrown by `verifyWebhook`. */
export const SIGNATURE_MISSING = 'signature_missing'

/** The header is not a single `t` of digits with at least one `v1`. Thrown by `verifyWebhook`. */
export const SIGNATURE_MALFORMED = 'signature_malformed'

/** No `v1` was made with a given secret over this body and this `t`. Thrown by `verifyWebhook`. */
export const SIGNATURE_MISMATCH = 'signature_mismatch'

/** Signed with a secret, but too long ago or too far ahead: perhaps a replay. Thrown by `verifyWebhook`. */
export const SIGNATURE_EXPIRED = 'signature_expired'

/** The request is not a POST. Thrown by `receiveWebhook`; respond with 405. */
export const WEBHOOK_METHOD = 'webhook_method'

/** The body is larger than `maxBodyBytes`. Thrown by `receiveWebhook`; respond with 413. */
export const WEBHOOK_TOO_LARGE = 'webhook_too_large'

/** The body ended early, or is signed but not an event. Thrown by `receiveWebhook`; respond with 400. */
export const WEBHOOK_MALFORMED = 'webhook_malformed'

/** Every code of a {@link WebhookError}. */
export type WebhookErrorCode =
  | typeof SIGNATURE_MISSING
  | typeof SIGNATURE_MALFORMED
  | typeof SIGNATURE_MISMATCH
  | typeof SIGNATURE_EXPIRED
  | typeof WEBHOOK_METHOD
  | typeof WEBHOOK_TOO_LARGE
  | typeof WEBHOOK_MALFORMED

/** A request that cannot be trusted. `code` names the failed check, `status` is the status to respond with. */
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
