import type { DeliveryAttempt } from '../../webhooks/claims.ts'
import type { DeliveryDetails } from '../../webhooks/deliveries.ts'
import { isSuccess } from '../../webhooks/webhook-answer.ts'
import type { Context } from '../context.ts'
import { attributes, type Content, exact, type Html, html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { badge, codeBlock, facts } from '../views/elements.ts'
import { lines } from '../views/table.ts'
import { answerText } from './delivery-words.ts'

/** Returns the attempt selected in the URL, or the newest; `null` if there is none. */
export function chosenAttempt({ query }: Context, { attemptLog }: DeliveryDetails): DeliveryAttempt | null {
  const wanted = query.get('attempt')
  return attemptLog.find(({ number }) => String(number) === wanted) ?? attemptLog.at(-1) ?? null
}

/** Renders a delivery's attempts, newest first, each with a link that selects it. @param from the list's query */
export function attemptTable(
  { t, link, format }: Context,
  { id, attemptLog }: DeliveryDetails,
  chosen: DeliveryAttempt,
  from: string | undefined,
): Html {
  return lines<DeliveryAttempt>(
    t`Attempts`,
    [
      {
        head: t`Attempt`,
        width: 'small',
        cell: ({ number }) =>
          html`<a href="${link(`/deliveries/${id}`, { attempt: String(number), from })}"${attributes({ 'aria-current': number === chosen.number ? 'true' : null })}>#${number}</a>`,
      },
      {
        head: t`Status`,
        cell: ({ status, error }) =>
          badge(isSuccess({ status }) ? 'good' : 'bad', answerText(t, status, error)),
      },
      { head: t`Duration`, width: 'small', cell: ({ durationMs }) => format.duration(durationMs) },
      {
        head: t`Time`,
        note: format.timeZone,
        width: 'medium',
        cell: ({ startedAt }) => format.short(startedAt),
      },
    ],
    attemptLog.toReversed(),
  )
}

/** Renders an attempt's request and response. @param url `null` if unknown, or if the person may not see it */
export function showAttempt(
  context: Context,
  { body }: DeliveryDetails,
  attempt: DeliveryAttempt,
  url: string | null,
): Html {
  const { t, access, format } = context
  const { number, startedAt, headers } = attempt
  const shownUrl = access.can('endpoints:read') && url !== null && html`<p><code>POST ${url}</code></p>`
  const bodyExcerpt = access.can('endpoints:read')
    ? attempt.bodyExcerpt
    : withoutUrl(url, attempt.bodyExcerpt)
  return html`<h2>${t`Attempt ${number}`}, ${format.time(startedAt)}</h2>
<h3>${t`Response`}</h3>
${attemptFacts(context, { ...attempt, bodyExcerpt })}
${headers && headerBlock(t, t`Response headers`, headers.response)}
<h3>${t`Request`}</h3>
${shownUrl}
${headers ? headerBlock(t, t`Request headers`, headers.request) : html`<p class="ba-hint">${t`Headers not available.`}</p>`}
${requestBody(t, body)}`
}

function headerBlock(t: Texts, label: string, headers: Readonly<Record<string, string>>): Content {
  const text = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  return (
    text.length > 0 &&
    html`<details open><summary>${label}</summary>${codeBlock(t, text.join('\n'), label)}</details>`
  )
}

/** Renders the event's body, formatted and raw. */
export function requestBody(t: Texts, body: string): Html {
  return html`<details open><summary>${t`Request body`}</summary>${codeBlock(t, pretty(body), t`Request body`)}</details>
<details><summary>${t`Raw`}</summary>${codeBlock(t, exact(body), t`Raw request body`)}</details>`
}

/**
 * Removes an endpoint's URL from a response that repeats it, because its path or query may contain tokens. If the URL is unknown, people
 * who may not see endpoints don't see the excerpt. Parts with fewer than 8 characters are treated as words.
 */
function withoutUrl(url: string | null, excerpt: string): string {
  if (url === null) return ''
  const { pathname, search } = new URL(url)
  const tokens = `${pathname}${search}`.split(/[/?&=]/).filter(({ length }) => length >= 8)
  const decoded = new URLSearchParams(tokens.map((token) => `_=${token}`).join('&')).getAll('_')
  return [pathname + search, pathname, ...tokens, ...decoded]
    .filter((part) => part !== '/')
    .reduce((text, part) => text.replaceAll(part, '…'), excerpt)
}

/** Matches strings, empty lists and objects, the other punctuation, and white space. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[[{]\s*[\]}]|[[\]{},:]|\s+/g
/** Levels with their own indentation. */
const INDENTS_MAX = 20

/** Formats JSON, with the numbers as they were sent, even if JavaScript can't hold them; returns any other text as is. */
export function pretty(body: string): string {
  try {
    JSON.parse(body)
  } catch {
    return body
  }
  let depth = 0
  const line = (step: number): string => {
    depth += step
    return `\n${'  '.repeat(Math.min(depth, INDENTS_MAX))}`
  }
  return body.replace(TOKEN, (token) => {
    if (token.startsWith('"')) return token
    if (token === '[' || token === '{') return token + line(1)
    if (token === ']' || token === '}') return line(-1) + token
    if (token === ',') return token + line(0)
    return token === ':' ? ': ' : token.replaceAll(/\s/g, '')
  })
}

/** Renders an attempt's result: the response, the duration of each phase and the start of the response body. */
export function attemptFacts(
  { t, format, access }: Context,
  attempt: Omit<DeliveryAttempt, 'number' | 'startedAt' | 'headers'>,
): Html {
  const { status, error, durationMs, dnsMs, connectMs, tlsMs, firstByteMs, bodyExcerpt, location } = attempt
  const phases = [
    [t`DNS lookup`, dnsMs],
    [t`Connect`, connectMs],
    [t`TLS`, tlsMs],
    [t`First byte`, firstByteMs],
  ] as const
  const parts = phases.flatMap(([name, ms]) => (ms === null ? [] : [`${name} ${format.duration(ms)}`]))
  return html`${facts([
    [t`Status`, answerText(t, status, error)],
    // A redirect usually repeats the endpoint's own URL.
    location === null || !access.can('endpoints:read')
      ? null
      : [t`Redirects to`, html`${location} <span class="ba-hint">${t`(not followed)`}</span>`],
    [t`Duration`, `${format.duration(durationMs)}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`],
  ])}${bodyExcerpt !== '' && html`<details open><summary>${t`Response body`}</summary>${codeBlock(t, bodyExcerpt, t`Response body`)}</details>`}${bodyExcerpt.includes('\uFFFD') && html`<p class="ba-hint">${t`Not valid UTF-8. Unreadable bytes are shown as ${'\uFFFD'}.`}</p>`}`
}
