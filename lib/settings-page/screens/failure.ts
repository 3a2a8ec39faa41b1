import {
  ALREADY_EXISTS,
  BusinessApiError,
  INVALID_INPUT,
  INVALID_STATE,
  LIMIT_REACHED,
  NOT_FOUND,
  SECRET_UNAVAILABLE,
} from '../../base/errors.ts'
import { Refusal, toRefusal } from '../../http/refusal.ts'
import type { Frame, ScreenPage } from '../context.ts'
import { html } from '../html.ts'
import { notice } from '../views/elements.ts'

/** A failed request. */
export interface FailedRequest {
  readonly requestId: string
  readonly method: string
}

/** Error message for a key with scopes that the person may not grant. */
export const BEYOND_GRANT = 'scopes beyond the grant'

/** Renders an error page. The text depends on the error's code and never contains its message. */
export function showFailure(
  error: unknown,
  { t, link, access }: Frame,
  { requestId, method }: FailedRequest,
): ScreenPage {
  const isKnown = access.organizationId !== ''
  const status = statusOf(error)
  const mayBeSaved = method === 'POST' && isKnown
  const refused = error instanceof Refusal ? error.message : ''
  const texts: Readonly<Record<number, readonly [title: string, text: string]>> = {
    401: [t`Session expired`, t`Sign in again to continue.`],
    403: [
      t`Access denied`,
      refused === 'another origin'
        ? t`The form was sent from another site. Nothing was changed. Open the page again and try again.`
        : refused === BEYOND_GRANT
          ? t`This key has permissions that you can't grant. Nothing was changed. Contact your administrator.`
          : t`You don't have permission to do this. Contact your administrator.`,
    ],
    404: [t`Page not found`, t`The page doesn't exist or was deleted.`],
    405: [t`Method not allowed`, t`Open the page again and try again.`],
    409: [
      t`Couldn't save changes`,
      t`Someone changed the same settings in the meantime. Open the page again and try again.`,
    ],
    413: [t`Form too large`, t`Nothing was changed.`],
    422: [t`Limit reached`, t`Your organization has reached its limit. Nothing was changed.`],
    503: [
      t`Temporarily unavailable`,
      mayBeSaved
        ? t`Your change may have been saved. Check before trying again.`
        : t`Nothing was changed. Try again in a moment.`,
    ],
    500: [
      t`Something went wrong`,
      mayBeSaved
        ? t`Your change may have been saved. Check before trying again.`
        : t`Try again. If the problem persists, contact support with the request ID below.`,
    ],
    501: [
      t`Signing not configured`,
      t`Signing secrets can't be stored or read. Nothing was changed. Contact support.`,
    ],
  }
  const [title, text] = texts[status] ?? [
    t`Bad request`,
    t`The request couldn't be read. Nothing was changed.`,
  ]
  return {
    title,
    status,
    content: html`${notice('bad', text)}
${status >= 500 && method !== 'POST' && html`<p><a href="">${t`Try again`}</a></p>`}
${isKnown && html`<p><a href="${link('/')}">${t`Go to overview`}</a></p>`}
${status >= 500 && html`<p class="ba-hint">${t`Request ID: ${requestId}`}</p>`}`,
  }
}

const STATUSES: Readonly<Record<string, number>> = {
  [NOT_FOUND]: 404,
  [INVALID_STATE]: 409,
  [ALREADY_EXISTS]: 409,
  [LIMIT_REACHED]: 422,
  [SECRET_UNAVAILABLE]: 501,
}

function statusOf(error: unknown): number {
  // All input comes from our forms, so an invalid ID means an unknown record.
  if (error instanceof BusinessApiError && error.code === INVALID_INPUT)
    return error.fields.some((field) => /id$/i.test(field)) ? 404 : 400
  const status = error instanceof BusinessApiError ? STATUSES[error.code] : undefined
  return status ?? toRefusal(error).status
}
