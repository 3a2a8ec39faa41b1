import type { RateLimit, RateLimits } from '../access/rate-limit.ts'
import { WEBHOOK_TAG } from './webhooks.ts'

/** Everything that the words of the document depend on. */
export interface InfoOptions {
  readonly keyPrefix: string
  readonly headerPrefix: string
  readonly rateLimits: RateLimits | null
}

/** `info` (specification, sections 1 and 9). */
export function buildInfo(options: InfoOptions): object {
  return {
    title: 'Business API',
    version: '1.0.0',
    summary: 'Clients, leads, invoices, proposals and projects of one organization, and signed webhooks.',
    description: describeService(options),
    // Linters ask for a contact, but only the host knows the platform's address: a name alone.
    contact: { name: 'Platform support' },
    license: { name: 'MIT', identifier: 'MIT' },
  }
}

/** `tags`: first the tags of the routes, then the tag of the webhooks. */
export const tags: readonly { readonly name: string; readonly description: string }[] = [
  { name: 'Clients', description: 'Businesses that the organization works for.' },
  { name: 'Leads', description: 'Businesses that may become clients.' },
  { name: 'Invoices', description: 'What clients owe; money in decimal strings.' },
  { name: 'Proposals', description: 'What the organization offers to do.' },
  { name: 'Projects', description: 'What the organization does.' },
  {
    name: WEBHOOK_TAG,
    description: 'Events that the service POSTs to the endpoints registered in the developer settings.',
  },
]

/** `components.securitySchemes.bearer` (specification, section 5). */
export function buildBearerScheme({ keyPrefix }: InfoOptions): object {
  return {
    type: 'http',
    scheme: 'bearer',
    description:
      'An API key, made by an administrator of the organization in the developer settings: ' +
      `\`${keyPrefix}_live_\` and 49 letters and digits.`,
  }
}

function describeService({ keyPrefix, headerPrefix, rateLimits }: InfoOptions): string {
  return [
    'A caller sees and creates only the data of the organization that its API key belongs to. All timestamps are ISO ' +
      '8601 in UTC.',
    '## Authentication',
    `Send \`Authorization: Bearer ${keyPrefix}_live_…\`. Each operation needs the one scope that \`x-required-scope\` ` +
      'names: a key that is invalid, revoked or expired gets 401, one without the scope 403.',
    '## Errors',
    'Every error is `{ "error": string, "requestId": string }`; the id is also in `X-Request-Id`, on every answer. An ' +
      'id of another organization is as unknown as one that does not exist: 404.',
    '## Idempotency',
    'Send an `Idempotency-Key` with a POST and it can be repeated safely for 7 days: the first reply is answered again ' +
      'with `Idempotent-Replayed: true` and nothing is created twice. The same key with another content is refused ' +
      'with 422. Errors are not recorded: after one the request is judged anew.',
    ...describeRateLimits(rateLimits),
    '## Webhooks',
    `Verify every webhook before trusting it. Take \`t\` and all \`v1\` from \`${headerPrefix}-Signature\`; compute ` +
      'HMAC-SHA256 of `<t>.<raw request body>`, keyed with the signing secret of the endpoint; compare it in constant ' +
      'time with each `v1`, decoded from hex, and accept if any is equal. Reject when `t` is more than 300 seconds ' +
      `from now. Deduplicate on the event id, \`${headerPrefix}-Event-Id\`: a retry carries the same one.`,
  ].join('\n\n')
}

function describeRateLimits(rateLimits: RateLimits | null): string[] {
  if (rateLimits === null) return []
  return [
    '## Rate limits',
    `Each key may send ${describeLimit(rateLimits.key)}, each organization ${describeLimit(rateLimits.organization)}, ` +
      'unless other limits were agreed. Every authenticated answer tells what is left in `RateLimit` and ' +
      '`RateLimit-Policy`; beyond it the answer is 429, and waiting `Retry-After` seconds admits the next request.',
  ]
}

function describeLimit({ perSecond, burst }: RateLimit): string {
  return `${perSecond} requests per second with bursts of ${burst}`
}
