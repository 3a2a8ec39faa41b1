import { type ApiKey, endOfKey } from '../../access/api-keys.ts'
import { type KeyScope, scopesOf } from '../../access/scopes.ts'
import { isStorable } from '../../base/fields.ts'
import { capital } from '../../resources/route.ts'
import type { Context } from '../context.ts'
import type { Html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { badge } from '../views/elements.ts'

// Texts about keys and scopes.

/** Maximum length of a key's name, in characters. */
export const NAME_MAX = 100

/** Returns what is wrong with a key's name, or `null` if it is valid. */
export function keyNameProblem(t: Texts, name: string): string | null {
  const isRight = name !== '' && [...name].length <= NAME_MAX && isStorable(name)
  return isRight ? null : t`Enter a name of 1 to ${NAME_MAX} characters`
}

/** Renders a key's status as a badge. */
export function keyState(t: Texts, key: ApiKey, now: number): Html {
  const end = endOfKey(key, now)
  if (end === 'revoked') return badge('quiet', t`Revoked`)
  if (end === 'expired') return badge('quiet', t`Expired`)
  if (key.successorId !== null) return badge('wait', t`Replaced`)
  return badge('good', t`Active`)
}

/** An API resource and its scopes. */
export interface ScopedResource {
  readonly name: string
  readonly text: string
  readonly read: KeyScope | null
  readonly write: KeyScope | null
}

/** Returns the resources of scopes, in the order of the scopes. */
export function scopedResources(t: Texts, scopes: readonly KeyScope[]): readonly ScopedResource[] {
  return [...new Set(scopes.map((scope) => scope.slice(0, scope.indexOf(':'))))].map((name) => {
    const find = (scope: KeyScope) => (scopes.includes(scope) ? scope : null)
    // The host's own words may have a translation, for example `Meeting rooms` for `meeting-rooms`.
    const text = t.word(capital(name.replaceAll(/[-_]/g, ' ')))
    return { name, text, read: find(`${name}:read`), write: find(`${name}:write`) }
  })
}

/** Formats a key's scopes: `Clients: read, write; Leads: read`. */
export function scopeText(
  { t, settings }: Pick<Context, 't' | 'settings'>,
  scopes: readonly KeyScope[],
): string {
  if (scopesOf(settings.service).every((scope) => scopes.includes(scope))) return t`Full access`
  return scopedResources(t, scopes)
    .map(({ text, read, write }) => {
      const words = [read && t`read`, write && t`write`]
      return `${text}: ${words.filter((word) => word !== null).join(', ')}`
    })
    .join('; ')
}
