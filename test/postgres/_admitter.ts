// A separate process that sends requests of some keys in random order, as fast as they're answered. It reports when each
// admitted request was sent and answered, in milliseconds since 1970.
//
//   node --import tsx test/postgres/_admitter.ts '{"databaseUrl":"…","requests":[{…}],"count":2500,"atOnce":16}'

import type { AdmissionRequest } from '../../lib/access/admission.ts'
import { createPostgresStore } from '../../lib/postgres.ts'

/** What the process has to do. */
export interface Admitting {
  readonly databaseUrl: string
  readonly requests: readonly AdmissionRequest[]
  readonly count: number
  readonly atOnce: number
}

/** Start and end of an admitted request. */
export type Admitted = readonly [begunAt: number, answeredAt: number]

/** What the process reports. */
export interface AdmittingReport {
  readonly admitted: readonly Admitted[]
  /** Number of requests that the store couldn't check. */
  readonly failures: number
}

const { databaseUrl, requests, count, atOnce } = JSON.parse(process.argv[2] ?? '{}') as Admitting
const store = createPostgresStore(databaseUrl, { maxConnections: 4 })
const admitted: Admitted[] = []
let sent = 0
let failures = 0

function now(): number {
  return performance.timeOrigin + performance.now()
}

async function admitInTurn(): Promise<void> {
  while (sent < count) {
    sent++
    const begunAt = now()
    const request = requests[Math.floor(Math.random() * requests.length)] as AdmissionRequest
    try {
      const { outcome } = await store.apiKeys.admit(request)
      if (outcome === 'admitted') admitted.push([begunAt, now()])
    } catch {
      failures++
    }
  }
}

// Open the connections first, so that the processes really run at the same time.
await Promise.all(Array.from({ length: 4 }, () => store.apiKeys.list(requests[0]?.organizationHint ?? '')))
process.send?.('ready')
process.once('message', async () => {
  await Promise.all(Array.from({ length: atOnce }, admitInTurn))
  await store.close()
  process.send?.({ admitted, failures } satisfies AdmittingReport, () => process.exit())
})
