import type { AttemptHeaders, ClaimedDelivery, DeliveryAttempt } from './claims.ts'
import { isSuccess } from './webhook-answer.ts'
import type { WebhookAnswer, WebhookRequest } from './webhook-sender.ts'

// Decides which headers get logged. We keep whatever helps support and drop anything that might be a credential.

type Sent = Pick<ClaimedDelivery, 'eventId' | 'type'>

type Headers = WebhookRequest['headers']

/** Returns the headers that can be derived from the event. There's no need to log these. */
export function eventHeaders({ eventId, type }: Sent, headerPrefix: string): Headers {
  return {
    'Content-Type': 'application/json',
    [`${headerPrefix}-Event-Id`]: eventId,
    [`${headerPrefix}-Event-Type`]: type,
  }
}

const HIDDEN = '(hidden)'

function commonHeaders(delivery: Sent, headerPrefix: string): Headers {
  return { ...eventHeaders(delivery, headerPrefix), [`${headerPrefix}-Signature`]: HIDDEN }
}

/** Returns the headers to log for an attempt, or `null` if it got a 2xx response with no interesting headers. */
export function loggedHeaders(
  delivery: Sent & Pick<ClaimedDelivery, 'headerNames'>,
  request: Pick<WebhookRequest, 'headers'>,
  answer: WebhookAnswer,
  headerPrefix: string,
): AttemptHeaders | null {
  const { headerNames } = delivery
  const response = within(isSuccess(answer) ? 300 : 900, answer.headers ?? {})
  const common = commonHeaders(delivery, headerPrefix)
  const names = Object.keys(request.headers).filter((name) => !(name in common))
  const hidden = within(600, Object.fromEntries(names.map((name) => [name, HIDDEN])))
  if (isSuccess(answer)) {
    const isEmpty = names.length + Object.keys(response).length === 0
    return isEmpty ? null : { request: hidden, response }
  }
  const known = eventHeaders(delivery, headerPrefix)
  const signed = Object.entries(request.headers).filter(
    ([name]) => !(name in known || headerNames.includes(name)),
  )
  return { request: hidden, signed: within(500, Object.fromEntries(signed)), response }
}

/**
 * Returns the delivery with each attempt's headers as the settings show them. `headers` stays `null` if no request was
 * made or the process died.
 */
export function showHeaders<Logged extends Sent & { readonly attemptLog: readonly DeliveryAttempt[] }>(
  delivery: Logged,
  headerPrefix: string,
): Logged {
  const common = commonHeaders(delivery, headerPrefix)
  const attemptLog = delivery.attemptLog.map((attempt) => {
    if (attempt.headers === null && attempt.status === null) return attempt
    const { request, signed, response } = attempt.headers ?? { request: {}, response: {} }
    return { ...attempt, headers: { request: { ...common, ...request, ...signed }, response } }
  })
  return { ...delivery, attemptLog }
}

/** Omits headers once their combined length exceeds `max` characters. */
function within(max: number, headers: Headers): Headers {
  let left = max
  const kept = Object.entries(headers).filter(([name, value]) => {
    left -= name.length + value.length
    return left >= 0
  })
  return Object.fromEntries(kept)
}
