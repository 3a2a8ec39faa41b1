import { type ApiKey, endOfKey } from '../../access/api-keys.ts'
import { type KeyScope, scopesOf } from '../../access/scopes.ts'
import { isStorable } from '../../base/fields.ts'
import { capital } from '../../resources/route.ts'
import type { Context } from '../context.ts'
import type { Html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { badge } from '../views/badge.ts'

// The words for keys and scopes.

/** Of the name of a key, in characters. */
export const NAME_MAX = 100

/** Returns the fault of a key's name; null for a name that can be used. */
export function keyNameProblem(t: Texts, name: string): string | null {
  const isRight = name !== '' && [...name].length <= NAME_MAX && isStorable(name)
  return isRight ? null : t`Enter a name of 1 to ${NAME_MAX} characters`
}

/** The state of a key as a word. */
export function keyState(t: Texts, key: ApiKey, now: number): Html {
  const end = endOfKey(key, now)
  if (end === 'revoked') return badge('bad', t`Revoked`)
  if (end === 'expired') return badge('quiet', t`Expired`)
  if (key.successorId !== null) return badge('wait', t`Replaced`)
  return badge('good', t`Active`)
}

/** A resource of the API with the scopes for it. */
export interface ScopedResource {
  readonly name: string
  readonly text: string
  readonly read: KeyScope | null
  readonly write: KeyScope | null
}

/** The resources that scopes are about, in the order of the scopes. */
export function scopedResources(t: Texts, scopes: readonly KeyScope[]): readonly ScopedResource[] {
  return [...new Set(scopes.map((scope) => scope.slice(0, scope.indexOf(':'))))].map((name) => {
    const find = (scope: KeyScope) => (scopes.includes(scope) ? scope : null)
    // The word of a host's own, `Meeting rooms` for `meeting-rooms`, may have a translation too.
    const text = t.word(capital(name.replaceAll(/[-_]/g, ' ')))
    return { name, text, read: find(`${name}:read`), write: find(`${name}:write`) }
  })
}

/** The scopes of a key as a sentence: `Clients: read, write; Leads: read`. */
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
