import type { RateLimit, RateLimits } from '../access/rate-limit.ts'
import { LIMIT_DEFAULT, LIMIT_MAX } from '../http/list-query.ts'
import { API_PATH } from '../resources/own-routes.ts'
import { type CreateRoute, capital, type ListRoute, type Route } from '../resources/route.ts'
import type { Service } from '../service.ts'
import { IDEMPOTENCY_KEY_MAX, IDEMPOTENCY_WINDOW_MS } from '../writes/idempotency.ts'
import type { Schemas } from './schemas.ts'
import { WEBHOOK_TAG } from './webhooks.ts'

/** Describes the host's platform in the OpenAPI document. */
export interface ApiInfo {
  /** Your API's version. Can be any string. Defaults to `1.0.0`. */
  readonly version?: string | undefined
  /** Where integrators can get help. Defaults to `{ name: 'Platform support' }`. */
  readonly contact?: { readonly name?: string; readonly url?: string; readonly email?: string } | undefined
  /** The API's license. Defaults to `LicenseRef-Proprietary`, because pip requires an SPDX expression. */
  readonly license?:
    | { readonly name: string; readonly url?: string; readonly identifier?: string }
    | undefined
  /** The terms of service URL. None by default. */
  readonly termsOfService?: string | undefined
}

/** Options that affect the document's prose. */
export interface InfoOptions extends Service {
  readonly operations: readonly Route[]
  readonly info: ApiInfo
  readonly rateLimits: RateLimits | null
  readonly maxBodyBytes: number
  /** The host's hook for rejecting requests, if any. */
  readonly onRequest: unknown
}

/** Returns `info` (see sections 1 and 9 of the spec). */
export function buildInfo(options: InfoOptions): object {
  const { version = '1.0.0', contact, license, termsOfService } = options.info
  const listed = options.operations.filter(isList).map(({ tag }) => tag.toLowerCase())
  const last = listed.pop()
  return {
    title: options.name ?? 'Business API',
    version,
    summary: `${capital(listed.join(', '))} and ${last}, with signed webhooks.`,
    description:
      'An API key gives access to the data of one organization. For authentication, pagination, syncing, errors, idempotent requests, ' +
      `rate limits and webhooks, see the tag \`${GUIDE_TAG}\`.`,
    // Linters require a contact, but only the host knows the address, so we just set a name.
    contact: contact ?? { name: 'Platform support' },
    // This is the license for the platform's API, not this library. pip only accepts SPDX expressions as names.
    license: license ?? { name: 'LicenseRef-Proprietary', identifier: 'LicenseRef-Proprietary' },
    ...(termsOfService === undefined ? {} : { termsOfService }),
  }
}

/** The tag that contains the guide. Generators would copy the guide to the top of every file if we put it in `info`. */
const GUIDE_TAG = 'Guide'

/** Returns `tags` in alphabetical order, as linters require. */
export function buildTags(
  options: InfoOptions,
  schemas: Schemas,
): readonly { readonly name: string; readonly description: string }[] {
  return [
    ...options.operations.filter(isList).map(({ tag, about }) => ({ name: tag, description: about })),
    ...ownTags(options),
    { name: GUIDE_TAG, description: describeService(options, schemas) },
    {
      name: WEBHOOK_TAG,
      description: 'Events sent as POST requests to the webhook endpoints in your developer settings.',
    },
  ].sort((one, other) => (one.name < other.name ? -1 : 1))
}

function ownTags({ operations, routes }: InfoOptions) {
  const taken = new Set([GUIDE_TAG, WEBHOOK_TAG, ...operations.map(({ tag }) => tag)])
  const names = new Set(routes.map(({ tag }) => tag).filter((tag) => !taken.has(tag)))
  return [...names].map((name) => ({ name, description: 'Operations specific to this platform.' }))
}

function isList(route: Route): route is ListRoute {
  return route.method === 'GET'
}

/** Returns `components.securitySchemes.bearer` (see section 5 of the spec). */
export function buildBearerScheme({ keyPrefix }: InfoOptions): object {
  return {
    type: 'http',
    scheme: 'bearer',
    description:
      "An API key from your organization's developer settings: " +
      `\`${keyPrefix}_live_\` followed by 49 letters and digits.`,
  }
}

function describeService(options: InfoOptions, schemas: Schemas): string {
  return [
    "The API lists records and creates clients and leads; it can't update or delete them. Creating a client also creates its business: use " +
      `the client's \`business.id\` as \`businessId\`. All timestamps are ISO 8601 in UTC.${options.routes.length > 0 ? ' The platform has added operations of its own.' : ''}`,
    ...describeAuthentication(options),
    ...LISTS,
    ...ERRORS,
    ...(options.onRequest === undefined ? [] : [OWN_REFUSALS]),
    '## Idempotent requests',
    'To retry a POST request safely, send an `Idempotency-Key` header. For 7 days, requests with the same key return the first ' +
      'response with `Idempotent-Replayed: true` and create nothing. Reusing a key with a different body fails with 422. Errors ' +
      "aren't stored: a retry after an error is processed as a new request.",
    ...describeLimits(options, schemas),
    ...describeWebhooks(options),
  ].join('\n\n')
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

function describeAuthentication({ keyPrefix, operations, routes }: InfoOptions): string[] {
  const all = [...operations, ...routes.map((route) => ({ ...route, path: API_PATH + route.path }))]
  const scopes = all.map(({ scope, method, path }) => [`\`${scope}\``, `\`${method} ${path}\``])
  return [
    '## Authentication',
    `Authenticate with an API key as a bearer token: \`Authorization: Bearer ${keyPrefix}_live_…\`. Requests fail with 401 if the key is ` +
      'missing, invalid, revoked or expired, and with 403 if it lacks the required scope.',
    table(['Scope', 'Grants access to'], scopes),
  ]
}

const LISTS = [
  '## Pagination',
  'Lists return the newest records first. If there are older records, the response has a `Link` header with the URL of the next page, ' +
    'which can be relative to the request URL: `Link: <clients?limit=200&before=…>; rel="next"`. Follow it until a response has none. ' +
    'Each record is returned once, even if others are created in the meantime, but a record that is just being written can be missed. ' +
    "Syncing doesn't miss any. Lists can't be filtered by status, name or other fields.",
  table(
    ['Parameter', 'Description'],
    [
      ['`limit`', 'Maximum number of records per page, from 1 to 200. Defaults to 50.'],
      ['`before`', 'A record ID. Returns the records older than this one.'],
      [
        '`updatedSince`',
        "A timestamp or `Sync-Token`. Returns the records created or changed since then, oldest change first. Can't be combined with `before`.",
      ],
      [
        '`page`, `page_size`, `per_page`, `offset`, `cursor`, `after`, `starting_after`, `ending_before`',
        'Not supported: requests with these parameters fail with 422. Other unknown parameters are ignored.',
      ],
    ],
  ),
  '## Syncing',
  'To keep a copy of a list, request it with `updatedSince=1970-01-01T00:00:00Z`, follow `Link` to the last page, and upsert each record ' +
    'by `id`. Each of these responses has a `Sync-Token` header. Store the latest token and pass it as `updatedSince` next time, even if ' +
    'your program stopped between two pages. No change is missed, however late it was committed, but a record can be returned more than ' +
    'once. If a token is no longer valid, for example after a restore, all records are returned again. If you pass a timestamp, start a ' +
    'little earlier than needed: it is compared with the time at which a record was written.',
]

const ERRORS = [
  '## Errors',
  'Errors have the body `{ "error": string, "requestId": string }`. The request ID is also in the `X-Request-Id` header of every response. ' +
    "Include it when you contact support. A record of another organization returns 404, like one that doesn't exist.",
  table(
    ['Status', 'Meaning', 'Retry?'],
    [
      ['400', "The body is empty, isn't valid JSON or isn't UTF-8.", 'No'],
      ['401', 'The API key is missing, invalid, revoked or expired.', 'With another key'],
      ['403', "The API key doesn't have the required scope.", 'With another key'],
      ['404', "The path or the business doesn't exist.", 'No'],
      ['405', "The path doesn't support this method; see the `Allow` header.", 'No'],
      ['409', 'Another request with the same Idempotency-Key is in progress.', 'After `Retry-After` seconds'],
      ['413, 415', "The body is too large, or isn't JSON in UTF-8.", 'No'],
      [
        '422',
        'A field, a parameter or the Idempotency-Key is invalid; the message lists each problem.',
        'After fixing the request',
      ],
      ['429', 'Too many requests.', 'After `Retry-After` seconds'],
      ['501', "A `Transfer-Encoding` other than `chunked` isn't supported.", 'No'],
      [
        '500, 503',
        'The service failed or is temporarily unavailable.',
        'Yes; POST requests with the same Idempotency-Key',
      ],
    ],
  ),
]

/** Doesn't list any statuses, because only the host's function knows them. */
const OWN_REFUSALS =
  'The platform can also reject requests by its own rules, for example because of a plan, a quota or an IP allowlist. These errors have the ' +
  'same body and a status from 400 to 599, which may not be in the table. The request was not processed, and its Idempotency-Key can be ' +
  'used again. Retry only if the response has a `Retry-After` header, after that number of seconds.'

function describeWebhooks({ headerPrefix }: InfoOptions): string[] {
  return [
    '## Webhooks',
    'Events are sent as POST requests to the webhook endpoints in your developer settings, at least once and in any order. Respond with a ' +
      '2xx status within 10 seconds and process the event afterwards. Any other response is retried, except 410, which disables the endpoint.',
    table(
      ['Header', 'Description'],
      [
        [
          `\`${headerPrefix}-Event-Id\``,
          '`id` of the event, the same on every attempt. Use it to ignore duplicates.',
        ],
        [`\`${headerPrefix}-Event-Type\``, '`type` of the event.'],
        [
          `\`${headerPrefix}-Signature\``,
          '`t=<Unix seconds>,v1=<hex>`, with two `v1` while the signing secret is being rotated.',
        ],
        [
          '`webhook-id`, `webhook-timestamp`, `webhook-signature`',
          'The Standard Webhooks equivalents, for endpoints with these headers.',
        ],
      ],
    ),
    'Verify the signature before you trust a webhook. Compute the HMAC-SHA256 of `<t>.<raw request body>`, using the signing secret exactly ' +
      'as shown as the key, with `whsec_` included and nothing decoded. Compare it in constant time with each `v1`, decoded from hex, and ' +
      'accept the webhook if one is equal. Reject it if `t` is more than 300 seconds from now.',
  ]
}

function describeLimits({ operations, rateLimits, maxBodyBytes }: InfoOptions, schemas: Schemas): string[] {
  return [
    ...(rateLimits
      ? [
          '## Rate limits',
          `Each API key is limited to ${describeLimit(rateLimits.key)}, and each organization to ${describeLimit(rateLimits.organization)}. ` +
            'Your limits may differ. Every authenticated response says what is left in `RateLimit` and `RateLimit-Policy`. Requests over a ' +
            'limit fail with 429: retry after the number of seconds in `Retry-After`.',
        ]
      : []),
    '## Limits',
    'Lengths are in Unicode characters.',
    table(
      ['Limit', 'Value'],
      [
        ['`limit`', `1 to ${LIMIT_MAX}; defaults to ${LIMIT_DEFAULT}`],
        [
          '`Idempotency-Key`',
          `1 to ${IDEMPOTENCY_KEY_MAX} visible ASCII characters; stored for ${REPLAY_DAYS} days`,
        ],
        ['Request body', `${maxBodyBytes} bytes`],
        ...operations.flatMap((route) => (route.method === 'POST' ? fieldLimits(route, schemas) : [])),
        ['Webhook timeout', '10 seconds per attempt'],
        ['Webhook attempts', '5, with delays of 30, 60, 120 and 240 seconds'],
        ['Webhook signature', 'valid for 300 seconds'],
      ],
    ),
  ]
}

const REPLAY_DAYS = IDEMPOTENCY_WINDOW_MS / (24 * 60 * 60 * 1000)

/** Returns the length limits for an input's fields, taken from the schema. */
function fieldLimits({ inputName }: CreateRoute, { components }: Schemas): string[][] {
  const fields = Object.entries(components[inputName]?.properties ?? {})
  return fields.flatMap(([name, field]) => {
    if (typeof field !== 'object') return []
    const { minLength, maxLength } = field
    const value = minLength === undefined ? `up to ${maxLength}` : `${minLength} to ${maxLength}`
    return [[`\`${name}\` in ${inputName}`, `${value} characters`]]
  })
}

function describeLimit({ perSecond, burst }: RateLimit): string {
  return `${perSecond} requests per second with bursts of ${burst}`
}
