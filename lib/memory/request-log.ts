import type { LoggedRequest, RequestLogStore } from '../access/request-log.ts'
import { toTimestamp } from '../writes/write-context.ts'
import { isMatch } from './record-list.ts'
import type { Memory } from './state.ts'

const KEPT_MS = 7 * 24 * 3_600_000

/** Creates the in-memory request log slice. */
export function createRequestLogStore(memory: Memory): RequestLogStore {
  function requestsOf(organizationId: string): readonly LoggedRequest[] {
    const { requests } = memory.organization(organizationId)
    const begin = toTimestamp(memory.clock() - KEPT_MS)
    for (const { id, at } of requests.values()) if (at < begin) requests.delete(id)
    const placeOf = ({ at, id }: LoggedRequest): string => `${at} ${id}`
    return [...requests.values()].sort((one, other) => (placeOf(one) < placeOf(other) ? 1 : -1))
  }

  return {
    async write(records) {
      for (const { keyDigest, organizationId, ...request } of records) {
        const { organization, key } = memory.digests.get(keyDigest) ?? {}
        if (!organization || !key || organization.id !== (organizationId ?? organization.id)) continue
        const { id: keyId, name: keyName } = key.record
        const now = toTimestamp(memory.clock())
        const at = request.at < now ? request.at : now
        if (!organization.requests.has(request.id))
          organization.requests.set(request.id, { ...request, at, keyId, keyName })
      }
    },

    async list(organizationId, { status, ...filter }, limit, before) {
      const all = requestsOf(organizationId)
      const place = before === null ? -1 : all.findIndex(({ id }) => id === before)
      if (before !== null && place < 0) return { data: [], next: null }
      const selected = all
        .slice(place + 1)
        .filter((request) => isMatch(request, request.at, filter))
        .filter((request) => status === undefined || String(request.status).startsWith(status.charAt(0)))
      const data = selected.slice(0, limit)
      return { data, next: selected.length > limit ? (data.at(-1)?.id ?? null) : null }
    },

    get: async (organizationId, requestId) =>
      requestsOf(organizationId).find(({ id }) => id === requestId) ?? null,
  }
}
