import { type KeyScope, SCOPES } from '../access/scopes.ts'
import { isStorable } from '../base/fields.ts'
import { rejectUnknown } from '../base/options.ts'

/** The permissions that you can give a person on the page. */
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

/** A member of {@link ABILITIES}. */
export type Ability = (typeof ABILITIES)[number]

/** The person behind a request, according to the host's session. */
export interface Access {
  /** The organization whose settings are shown. The page never reads it from the request. */
  readonly organizationId: string
  /** Shown above the navigation. Defaults to nothing. */
  readonly organizationName?: string | undefined
  /** Recorded in the audit log with each change: 1 to 200 characters, for example a user ID or email address. */
  readonly actor: string
  /** `everything`, `read` or a list of abilities. Required, so write access is never given by mistake. */
  readonly can: 'everything' | 'read' | readonly Ability[]
  /** The scopes that this person may grant to a key. Defaults to all. */
  readonly grantableScopes?: readonly KeyScope[] | undefined
  /** A BCP 47 tag such as `fr-CA`. Defaults to `en`. */
  readonly locale?: string | undefined
  /** An IANA name such as `Africa/Tunis`. Defaults to `UTC`. */
  readonly timeZone?: string | undefined
  /** The nonce of the page's two tags, if your Content-Security-Policy requires one. Defaults to none. */
  readonly nonce?: string | undefined
}

/** The validated access with defaults applied. */
export interface ResolvedAccess {
  readonly organizationId: string
  readonly organizationName: string
  readonly actor: string
  readonly grantableScopes: readonly KeyScope[]
  readonly locale: string
  readonly timeZone: string
  readonly nonce: string | undefined
  can(ability: Ability): boolean
  /** Returns whether the person may create, rotate or rename a key with these scopes. */
  mayGrant(scopes: readonly KeyScope[]): boolean
}

/**
 * Validates the result of `authorize` and applies defaults.
 *
 * @param scopes the service's scopes
 * @throws `TypeError` if the access is invalid. The message doesn't contain its values
 */
export function readAccess(access: Access, scopes: readonly KeyScope[] = SCOPES): ResolvedAccess {
  rejectUnknown(
    access,
    {
      organizationId: true,
      organizationName: true,
      actor: true,
      can: true,
      grantableScopes: true,
      locale: true,
      timeZone: true,
      nonce: true,
    },
    'authorize().',
  )
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
    locale: holds(() => Intl.getCanonicalLocales(locale).length === 1) ? locale : 'en',
    timeZone: holds(() => new Intl.DateTimeFormat('en', { timeZone }) !== null) ? timeZone : 'UTC',
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

/** @throws `TypeError` about the result of `authorize` */
export function check(isRight: boolean, requirement: string): asserts isRight {
  if (!isRight) throw new TypeError(`Cannot use the answer of option 'authorize' because ${requirement}`)
}

function isText(text: unknown, max: number): text is string {
  return typeof text === 'string' && text !== '' && text.length <= max && isStorable(text)
}

/** Returns a check's result, or `false` if it throws. Locale and time zone may come from a browser, so they may be invalid. */
function holds(check: () => boolean): boolean {
  try {
    return check()
  } catch {
    return false
  }
}
