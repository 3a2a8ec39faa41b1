import { setTimeout as sleep } from 'node:timers/promises'
import { SCOPES } from '../../lib/index.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'

/** Makes a key with every scope for an organization. */
export async function makeApiKey(
  databaseUrl: string,
  organizationId: string,
): Promise<{ key: string; id: string }> {
  const store = createPostgresStore(databaseUrl, { maxConnections: 1 })
  try {
    const settings = createDeveloperSettings(store)
    return await settings.apiKeys.create(organizationId, { name: 'Faults', scopes: SCOPES })
  } finally {
    await store.close()
  }
}

/** Limits that no test of faults reaches, because only the database shall be short here. */
export const UNREACHED_RATE_LIMIT = {
  key: { perSecond: 100_000, burst: 100_000 },
  organization: { perSecond: 100_000, burst: 100_000 },
}

/** Asks every 20 ms until the answer is yes; tells how many milliseconds that took. */
export async function until(
  what: string,
  isSo: () => Promise<boolean> | boolean,
  timeoutMs: number,
): Promise<number> {
  const startedAt = performance.now()
  while (!(await isSo())) {
    const waitedMs = performance.now() - startedAt
    if (waitedMs > timeoutMs) throw new Error(`Waited ${Math.round(waitedMs)} ms in vain until ${what}`)
    await sleep(20)
  }
  return performance.now() - startedAt
}
