// A process of its own that sends requests of one key, as fast as they are answered, and reports when each admitted one was
// begun and answered, in milliseconds since 1970.
//
//   node --import tsx test/postgres/_admitter.ts '{"databaseUrl":"…","request":{…},"count":2500,"atOnce":16}'

import type { AdmissionRequest } from '../../lib/access/admission.ts'
import { createPostgresStore } from '../../lib/postgres.ts'

/** The work of the process. */
export interface Admitting {
  readonly databaseUrl: string
  readonly request: AdmissionRequest
  readonly count: number
  readonly atOnce: number
}

/** The report of the process: beginning and end of each admitted request. */
export type Admitted = readonly (readonly [begunAt: number, answeredAt: number])[]

const { databaseUrl, request, count, atOnce } = JSON.parse(process.argv[2] ?? '{}') as Admitting
const store = createPostgresStore(databaseUrl, { maxConnections: 4 })
const admitted: [number, number][] = []
let sent = 0

function now(): number {
  return performance.timeOrigin + performance.now()
}

async function admitInTurn(): Promise<void> {
  while (sent < count) {
    sent++
    const begunAt = now()
    const { outcome } = await store.apiKeys.admit(request)
    if (outcome === 'admitted') admitted.push([begunAt, now()])
  }
}

// Opens the connections, so that the processes do meet.
await Promise.all(Array.from({ length: 4 }, () => store.apiKeys.list(request.organizationHint ?? '')))
process.send?.('ready')
process.once('message', async () => {
  await Promise.all(Array.from({ length: atOnce }, admitInTurn))
  await store.close()
  process.send?.(admitted, () => process.exit())
})
