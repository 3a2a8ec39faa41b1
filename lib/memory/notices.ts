import type { ExpiryNotice, ExpiryRequest, NoticeStore } from '../webhooks/notices.ts'
import { toTimestamp } from '../writes/write-context.ts'
import type { Memory, StoredApiKey, StoredEndpoint } from './state.ts'

/** The expiry time in the latest notice, and the token of the call that received the notice. */
type Given = WeakMap<object, { readonly expiresAt: number; readonly token: string }>

interface Ending {
  readonly of: StoredEndpoint | StoredApiKey
  readonly expiresAt: number
  readonly notice: ExpiryNotice
}

/** Creates the in-memory slice for notices about expiring secrets and keys. */
export function createNoticeStore(memory: Memory): NoticeStore {
  const given: Given = new WeakMap()
  return {
    async claimExpiring({ token, secretsWithinMs, apiKeysWithinMs, limit }) {
      for (const organization of memory.organizations())
        for (const endpoint of organization.endpoints.values())
          if ((endpoint.previousSecret?.expiresAt ?? Infinity) <= memory.clock())
            endpoint.previousSecret = null
      const claim = (endings: readonly Ending[], withinMs: number | null) =>
        claimSome(given, endings, { token, withinMs, limit, now: memory.clock() })
      return [...claim(secretsOf(memory), secretsWithinMs), ...claim(apiKeysOf(memory), apiKeysWithinMs)]
        .sort((one, other) => one.expiresAt - other.expiresAt)
        .map(({ notice }) => notice)
    },
  }
}

function secretsOf(memory: Memory): readonly Ending[] {
  const endpoints = [...memory.organizations()].flatMap((organization) => [
    ...organization.endpoints.values(),
  ])
  return endpoints.flatMap((endpoint) => {
    const { organizationId, record, previousSecret, isRemoved } = endpoint
    if (previousSecret === null || isRemoved) return []
    const { expiresAt } = previousSecret
    const notice = { kind: 'secret_expiring', organizationId, endpointId: record.id } as const
    return [{ of: endpoint, expiresAt, notice: { ...notice, expiresAt: toTimestamp(expiresAt) } }]
  })
}

function apiKeysOf(memory: Memory): readonly Ending[] {
  return [...memory.organizations()].flatMap(({ id: organizationId, apiKeys }) =>
    [...apiKeys.values()].flatMap((key) => {
      const { id: keyId, name, expiresAt } = key.record
      if (expiresAt === null || key.revokedAt !== null || key.successorId !== null) return []
      const notice = { kind: 'api_key_expiring', organizationId, keyId, name, expiresAt } as const
      return [{ of: key, expiresAt: Date.parse(expiresAt), notice }]
    }),
  )
}

interface Claim extends Pick<ExpiryRequest, 'token' | 'limit'> {
  readonly withinMs: number | null
  readonly now: number
}

/** Claims expiring secrets or keys. Anything this token has already claimed comes first, so a retry finds all of it. */
function claimSome(given: Given, endings: readonly Ending[], claim: Claim): readonly Ending[] {
  const { token, withinMs, limit, now } = claim
  if (withinMs === null) return []
  const isAgain = ({ of }: Ending): boolean => given.get(of)?.token === token
  const claimed = endings
    .filter(({ expiresAt }) => expiresAt > now && expiresAt <= now + withinMs)
    .filter((ending) => given.get(ending.of)?.expiresAt !== ending.expiresAt || isAgain(ending))
    .sort((one, other) => Number(isAgain(other)) - Number(isAgain(one)) || one.expiresAt - other.expiresAt)
    .slice(0, limit)
  for (const { of, expiresAt } of claimed) given.set(of, { expiresAt, token })
  return claimed
}
