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
import { notice } from '../views/notice.ts'

/** The request that failed. */
export interface FailedRequest {
  readonly requestId: string
  readonly method: string
}

/** The reason for refusing a change of a key that may do more than the person may grant. */
export const BEYOND_GRANT = 'scopes beyond the grant'

/** The page for an error of any kind. The words come from the error's code, never from its message. */
export function showFailure(
  error: unknown,
  { t, link, access }: Frame,
  { requestId, method }: FailedRequest,
): ScreenPage {
  const isKnown = access.organizationId !== ''
  const page = (status: number, title: string, text: string): ScreenPage => ({
    title,
    status,
    content: html`${notice('bad', text)}
${status >= 500 && method !== 'POST' && html`<p><a href="">${t`Try again`}</a></p>`}
${isKnown && html`<p><a href="${link('/')}">${t`Back to the overview`}</a></p>`}
${status >= 500 && html`<p class="ba-hint">${t`Request ${requestId}`}</p>`}`,
  })
  const status = statusOf(error)
  switch (status) {
    case 401:
      return page(status, t`Signed out`, t`Your session has ended. Sign in again to go on.`)
    case 403:
      return page(
        status,
        t`Not allowed`,
        error instanceof Refusal && error.message === 'another origin'
          ? t`The form came from another site, so nothing was changed. Open this page again and repeat the step here.`
          : error instanceof Refusal && error.message === BEYOND_GRANT
            ? t`This key has permissions that you can't grant. Nothing was changed. Ask an administrator of your organization.`
            : t`You are not allowed to do this. Ask an administrator of your organization.`,
      )
    case 404:
      return page(status, t`Not found`, t`There is nothing at this address. It may have been removed.`)
    case 405:
      return page(status, t`Not possible`, t`This address does not take such requests.`)
    case 409:
      return page(
        status,
        t`Not possible now`,
        t`The state has changed meanwhile. Open the page again to see it.`,
      )
    case 413:
      return page(status, t`Too large`, t`The form is too large. Nothing was changed.`)
    case 422:
      return page(status, t`Limit reached`, t`Your organization has reached a limit. Nothing was changed.`)
    case 503:
      return page(
        status,
        t`Temporarily unavailable`,
        method === 'POST' && isKnown
          ? t`The change may have been made: check the list before you try again.`
          : t`Nothing was changed. Try again in a moment.`,
      )
    case 500:
      return page(
        status,
        t`Something went wrong`,
        method === 'POST' && isKnown
          ? t`The change may have been made: check the list before you try again.`
          : t`Try again. If this happens again, give the request's name below to the operator.`,
      )
    case 501:
      return page(
        status,
        t`Signing is not set up`,
        t`Signing secrets cannot be stored or opened. Ask the operator to set up signing. Nothing was changed.`,
      )
    default:
      return page(status, t`Not possible`, t`The request could not be read. Nothing was changed.`)
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
  // Every input comes from a form. An id that is none names nothing.
  if (error instanceof BusinessApiError && error.code === INVALID_INPUT)
    return error.fields.some((field) => /id$/i.test(field)) ? 404 : 400
  const status = error instanceof BusinessApiError ? STATUSES[error.code] : undefined
  return status ?? toRefusal(error).status
}
