import { type ApiKey, endOfKey } from '../../access/api-keys.ts'
import { RESOURCES, SCOPES, type Scope } from '../../access/scopes.ts'
import { isStorable } from '../../base/fields.ts'
import { capital } from '../../resources/route.ts'
import type { Html } from '../html.ts'
import type { Texts } from '../texts.ts'
import { badge } from '../views/badge.ts'

// The words for keys and scopes.

/** Of the name of a key, in characters. */
export const NAME_MAX = 100

/** Returns the fault of a key's name; null for a name that can be used. */
export function keyNameProblem(t: Texts, name: string): string | null {
  const isRight = name !== '' && [...name].length <= NAME_MAX && isStorable(name)
  return isRight ? null : t`Give the key a name of 1 to ${NAME_MAX} characters`
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
  readonly read: Scope
  readonly write: Scope | null
}

/** The resources of the API in the order of the scopes. */
export function scopedResources(t: Texts): readonly ScopedResource[] {
  return RESOURCES.map((name) => {
    const write = SCOPES.find((scope) => scope === `${name}:write`) ?? null
    return { name, text: t.word(capital(name)), read: `${name}:read`, write }
  })
}

/** The scopes of a key as a sentence: `Clients: read, write; Leads: read`. */
export function scopeText(t: Texts, scopes: readonly Scope[]): string {
  if (scopes.length === SCOPES.length) return t`Everything`
  return scopedResources(t)
    .flatMap(({ text, read, write }) => {
      const words = [scopes.includes(read) && t`read`, write && scopes.includes(write) && t`write`]
      const given = words.filter((word) => typeof word === 'string')
      return given.length === 0 ? [] : [`${text}: ${given.join(', ')}`]
    })
    .join('; ')
}
