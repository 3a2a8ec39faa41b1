import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { Notice } from '../../lib/webhooks/notices.ts'
import { toTimestamp } from '../../lib/writes/write-context.ts'
import { newEntry } from '../_audit.ts'
import { AN_HOUR_MS, addEndpoint, ids, ORG, type StoreUnderTest } from './_loop.ts'

/** Records the notices of a loop. */
export function listen() {
  const notices: Notice[] = []
  return {
    notices,
    onNotice: (notice: Notice): void => void notices.push(notice),
    get kinds() {
      return notices.map(({ kind }) => kind)
    },
  }
}

/** Creates a key of {@link ORG} that is active for this long, and returns its id. */
export async function addKey(store: BusinessApiStore, ms: number): Promise<string> {
  const id = ids('key')
  const shown = { name: 'Website', scopes: [], prefix: 'bapi_live_', lastFour: 'abcd', rateLimit: null }
  const times = { createdAt: toTimestamp(Date.now()), expiresAt: toTimestamp(Date.now() + ms) }
  await store.apiKeys.insert({
    organizationId: ORG,
    limit: 1000,
    key: { id, ...shown, ...times, digest: `digest of ${id}` },
    entry: newEntry(),
  })
  return id
}

/** Creates a key and a secret of {@link ORG} that expire in half an hour. */
export async function expireBoth({ store }: StoreUnderTest): Promise<readonly string[]> {
  const keyId = await addKey(store, AN_HOUR_MS / 2)
  const endpointId = await addEndpoint(store)
  await store.endpoints.rotateSecret({
    organizationId: ORG,
    changeId: ids('chg'),
    endpointId,
    sealedSecret: 'plain.whsec_next',
    overlapMs: AN_HOUR_MS / 2,
    entry: newEntry(),
  })
  return [keyId, endpointId]
}
