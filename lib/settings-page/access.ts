import { type KeyScope, SCOPES } from '../access/scopes.ts'
import { isStorable } from '../base/fields.ts'
import { type Names, rejectUnknown } from '../base/options.ts'

/** Everything that a member of an organization can be allowed to do on the page. */
export const ABILITIES = [
  'keys:read',
  'keys:write',
  'endpoints:read',
  'endpoints:write',
  'deliveries:read',
  'deliveries:write',
  'audit:read',
  'requests:read',
] as const

/** The name of a right: an entry of {@link ABILITIES}. */
export type Ability = (typeof ABILITIES)[number]

/** The person behind a request, as the host's own session knows that person. */
export interface Access {
  /** The organization of the settings. The page never takes an organization from the request. */
  readonly organizationId: string
  /** Shown above the navigation. Default nothing. */
  readonly organizationName?: string | undefined
  /** Written to the audit with every change: 1 to 200 characters, a user's id or email address. */
  readonly actor: string
  /** `everything`, `read`, or a list of abilities. Required: no person may write by default. */
  readonly can: 'everything' | 'read' | readonly Ability[]
  /** The scopes that this person may give to a key. Default all. */
  readonly grantableScopes?: readonly KeyScope[] | undefined
  /** A BCP 47 tag: `fr-CA`. Default `en`. */
  readonly locale?: string | undefined
  /** An IANA name: `Africa/Tunis`. Default `UTC`. */
  readonly timeZone?: string | undefined
  /** Put on the page's two tags, for a Content-Security-Policy of the host with nonces. Default none. */
  readonly nonce?: string | undefined
}

/** A checked access with the defaults filled in. */
export interface ResolvedAccess {
  readonly organizationId: string
  readonly organizationName: string
  readonly actor: string
  readonly grantableScopes: readonly KeyScope[]
  readonly locale: string
  readonly timeZone: string
  readonly nonce: string | undefined
  can(ability: Ability): boolean
  /** Returns whether the person may make a key with these scopes, and so change or replace such a key. */
  mayGrant(scopes: readonly KeyScope[]): boolean
}

const NAMES: Names<Access> = {
  organizationId: true,
  organizationName: true,
  actor: true,
  can: true,
  grantableScopes: true,
  locale: true,
  timeZone: true,
  nonce: true,
}

/**
 * @param scopes of the service
 * @throws `TypeError` for an access that cannot be used; the message repeats no value
 */
export function readAccess(access: Access, scopes: readonly KeyScope[] = SCOPES): ResolvedAccess {
  rejectUnknown(access, NAMES, 'authorize().')
  const { organizationId, organizationName = '', actor, grantableScopes = scopes } = access
  const { locale = 'en', timeZone = 'UTC', nonce } = access
  check(isText(organizationId, 64), 'organizationId must be a string of 1 to 64 characters')
  check(isText(actor, 200), 'actor must be a string of 1 to 200 characters')
  check(typeof organizationName === 'string', 'organizationName must be a string')
  check(nonce === undefined || /^[\w+/=-]+$/.test(nonce), 'nonce must be base64')
  const areScopes = Array.isArray(grantableScopes) && grantableScopes.every((scope) => scopes.includes(scope))
  check(areScopes, 'grantableScopes must be a list of scopes')
  const abilities = readAbilities(access.can)
  const grantable = scopes.filter((scope) => grantableScopes.includes(scope))
  return {
    organizationId,
    organizationName,
    actor,
    grantableScopes: grantable,
    locale: isLocale(locale) ? locale : 'en',
    timeZone: isTimeZone(timeZone) ? timeZone : 'UTC',
    nonce,
    can: (ability) => abilities.has(ability),
    mayGrant: (given) => given.every((scope) => grantable.includes(scope)),
  }
}

function readAbilities(can: Access['can']): ReadonlySet<Ability> {
  if (can === 'everything') return new Set(ABILITIES)
  if (can === 'read') return new Set(ABILITIES.filter((ability) => ability.endsWith(':read')))
  check(
    Array.isArray(can) && can.every((ability) => ABILITIES.includes(ability)),
    "can must be 'everything', 'read' or a list of abilities",
  )
  return new Set(can)
}

/** @throws `TypeError` about the answer of `authorize` */
export function check(isRight: boolean, requirement: string): asserts isRight {
  if (!isRight) throw new TypeError(`Cannot use the answer of option 'authorize' because ${requirement}`)
}

function isText(text: unknown, max: number): text is string {
  return typeof text === 'string' && text !== '' && text.length <= max && isStorable(text)
}

// A locale or a time zone may come from a browser, so a wrong value gives the default and not an error.

function isLocale(locale: string): boolean {
  try {
    return Intl.getCanonicalLocales(locale).length === 1
  } catch {
    return false
  }
}

function isTimeZone(timeZone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone })
    return true
  } catch {
    return false
  }
}
