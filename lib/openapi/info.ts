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
    summary: `${capital(listed.join(', '))} and ${last} of one organization, and signed webhooks.`,
    description:
      'A caller sees and creates only the data of the organization that its API key belongs to. Authentication, paging, sync, errors, ' +
      `retries, limits and webhooks: in the description of the tag \`${GUIDE_TAG}\`.`,
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
      description: 'Events that the service POSTs to the endpoints registered in the developer settings.',
    },
  ].sort((one, other) => (one.name < other.name ? -1 : 1))
}

function ownTags({ operations, routes }: InfoOptions) {
  const taken = new Set([GUIDE_TAG, WEBHOOK_TAG, ...operations.map(({ tag }) => tag)])
  const names = new Set(routes.map(({ tag }) => tag).filter((tag) => !taken.has(tag)))
  return [...names].map((name) => ({ name, description: "The platform's own operations." }))
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
      'An API key, made by an administrator of the organization in the developer settings: ' +
      `\`${keyPrefix}_live_\` and 49 letters and digits.`,
  }
}

function describeService(options: InfoOptions, schemas: Schemas): string {
  return [
    `All timestamps are ISO 8601 in UTC. ${options.routes.length > 0 ? "Beside the platform's own operations, the API" : 'The API'} creates ` +
      'clients and leads; no operation changes or deletes a record. A business has no operations of its own: it is created with its client, and `businessId` is the `business.id` of a client.',
    ...describeAuthentication(options),
    ...LISTS,
    ...ERRORS,
    ...(options.onRequest === undefined ? [] : [OWN_REFUSALS]),
    '## Idempotency',
    'Send an `Idempotency-Key` with a POST and it can be repeated safely for 7 days: the first response is replayed ' +
      'with `Idempotent-Replayed: true` and nothing is created twice. The same key with another body is rejected ' +
      'with 422. Errors are not recorded: after one the request is processed again.',
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
    '## Authentication and scopes',
    `Send \`Authorization: Bearer ${keyPrefix}_live_…\`. A key that is invalid, revoked or expired gets 401, a key ` +
      'without the scope of the operation 403.',
    table(['scope', 'grants access to'], scopes),
  ]
}

const LISTS = [
  '## Paging and sync',
  'A list holds the newest records first. A response with older records behind it names the next page: ' +
    '`Link: <clients?limit=200&before=…>; rel="next"`, absolute or relative to the URL of the request. Resolve it, and follow it ' +
    'until a response has none: ' +
    'each record comes once, also while others are added. A record that was being written meanwhile may be missing: ' +
    '`updatedSince` with a `Sync-Token` misses none. Nothing filters by status, name or other fields: list, and filter what was read.',
  table(
    ['parameter', 'meaning'],
    [
      ['`limit`', 'records on a page: 1 to 200, default 50'],
      ['`before`', 'an id: the records older than it'],
      [
        '`updatedSince`',
        'a time, or a `Sync-Token`: the records created or changed since, oldest change first; not with `before`',
      ],
      [
        '`page`, `page_size`, `per_page`, `offset`, `cursor`, `after`, `starting_after`, `ending_before`',
        'names of other APIs: 422. All further names are ignored',
      ],
    ],
  ),
  'To keep a copy of a list, ask with `updatedSince=1970-01-01T00:00:00Z` once, follow `Link` to the last page, and upsert ' +
    'each record by `id`. Every answer carries a `Sync-Token`: keep the latest, and ask with `updatedSince=<Sync-Token>` ' +
    'next time, also after a program that ended between two pages. No change is missed, however late it was committed; a ' +
    'record may come more than once. A token that the service cannot use any more, after a restore for example, means ' +
    'everything: no error, all records once more. A time is a record’s time of writing, so begin a little earlier than needed.',
]

const ERRORS = [
  '## Errors',
  'Every error is `{ "error": string, "requestId": string }`; the id is also in `X-Request-Id`, on every response. An ' +
    'id of another organization is as unknown as one that does not exist: 404.',
  table(
    ['status', 'meaning', 'retry?'],
    [
      ['400', 'the body is empty, not JSON, or not UTF-8', 'no'],
      ['401', 'no API key, or one that is invalid, revoked or expired', 'with another key'],
      ['403', 'the key lacks the scope', 'with another key'],
      ['404', 'no such path, or no such business', 'no'],
      ['405', 'the path has no such method; `Allow` names those it has', 'no'],
      ['409', 'a request with the same Idempotency-Key is in progress', 'after `Retry-After` seconds'],
      ['413, 415', 'the body is too large, or not JSON in UTF-8', 'no'],
      ['422', 'a field, a parameter or the Idempotency-Key breaks its rule; the text names each', 'changed'],
      ['429', 'a rate limit is exceeded', 'after `Retry-After` seconds'],
      ['501', 'a `Transfer-Encoding` other than `chunked`', 'no'],
      [
        '500, 503',
        'the service failed, or is temporarily unavailable',
        'yes; a POST with its Idempotency-Key',
      ],
    ],
  ),
]

/** Doesn't list any statuses, because only the host's function knows them. */
const OWN_REFUSALS =
  'The platform may also reject a request by rules of its own, such as a plan, a quota or a list of networks: with a status from ' +
  '400 to 599, possibly one that is not in the table, and a text of its own in the same body. Nothing was done then, and the ' +
  'Idempotency-Key stays unused. Retry only if the response has `Retry-After`, after that number of seconds.'

function describeWebhooks({ headerPrefix }: InfoOptions): string[] {
  return [
    '## Webhooks',
    'Events are POSTed to the endpoints of the developer settings, at least once and in any order. Respond with 2xx within 10 ' +
      'seconds and process afterwards; everything else is retried.',
    table(
      ['header', 'value'],
      [
        [
          `\`${headerPrefix}-Event-Id\``,
          'the `id` of the event, the same on every attempt: deduplicate on it',
        ],
        [`\`${headerPrefix}-Event-Type\``, 'the `type` of the event'],
        [
          `\`${headerPrefix}-Signature\``,
          '`t=<Unix seconds>,v1=<hex>`; two `v1` while the secret is being rotated',
        ],
        [
          '`webhook-id`, `webhook-timestamp`, `webhook-signature`',
          'the same by Standard Webhooks, for endpoints that have chosen these headers as well',
        ],
      ],
    ),
    'Verify every webhook before trusting it. Take `t` and all `v1`; compute HMAC-SHA256 of `<t>.<raw request body>`, ' +
      'keyed with the signing secret exactly as shown, `whsec_` included and nothing decoded; compare it in constant ' +
      'time with each `v1`, decoded from hex, and accept if any is equal. Reject when `t` is more than 300 seconds ' +
      'from now.',
  ]
}

function describeLimits({ operations, rateLimits, maxBodyBytes }: InfoOptions, schemas: Schemas): string[] {
  return [
    '## Limits',
    'Lengths count Unicode characters.',
    table(
      ['limit', 'value'],
      [
        ['`limit` of a list', `1 to ${LIMIT_MAX}, default ${LIMIT_DEFAULT}`],
        [
          '`Idempotency-Key`',
          `1 to ${IDEMPOTENCY_KEY_MAX} visible ASCII characters; replayed for ${REPLAY_DAYS} days`,
        ],
        ['request body', `${maxBodyBytes} bytes`],
        ...operations.flatMap((route) => (route.method === 'POST' ? fieldLimits(route, schemas) : [])),
        ...(rateLimits
          ? [
              ['requests of a key', describeLimit(rateLimits.key)],
              ['requests of an organization', describeLimit(rateLimits.organization)],
            ]
          : []),
        ['attempt of a webhook', '10 seconds'],
        ['attempts of a webhook', '5, with delays of 30, 60, 120 and 240 seconds'],
        ['age of a webhook’s signature', '300 seconds'],
      ],
    ),
    ...(rateLimits
      ? [
          'Other rates may have been agreed. Every authenticated response tells what is left in `RateLimit` and ' +
            '`RateLimit-Policy`; beyond it the response is 429, so retry after the number of seconds in `Retry-After`.',
        ]
      : []),
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
    return [[`\`${name}\` of ${inputName}`, `${value} characters`]]
  })
}

function describeLimit({ perSecond, burst }: RateLimit): string {
  return `${perSecond} requests per second with bursts of ${burst}`
}
