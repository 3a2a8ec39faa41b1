import type { ClaimRequest, EndpointRef } from '../../webhooks/deliveries.ts'
import type { AskNodes } from './ask-nodes.ts'

// The endpoints with something to claim, of all nodes, in the order of the claim. The question takes no locks.

/** An endpoint with deliveries to claim. */
export interface Candidate extends EndpointRef {
  readonly isBackfill: boolean
  readonly state: string | null
  /** The order of a claim: 0 after the cursor, 1 from the first endpoint to the cursor. */
  readonly lap: number
  /** The number of deliveries, or COUNT_LIMIT and more. */
  total: number
  /** True for an endpoint with due retries that a claim has not moved to the pending deliveries. */
  hasRetry: boolean
}

/** An organization, by its id. */
export type OrganizationRef = Pick<EndpointRef, 'organizationId'>

/** The endpoints and organizations with work for a claim, of all nodes that answered. */
export interface Due {
  readonly first: readonly Candidate[]
  readonly backfills: readonly Candidate[]
  /** Organizations with expired leases. */
  readonly expired: readonly OrganizationRef[]
  /** Organizations with deliveries in flight under the token of a repeated claim. */
  readonly claimed: readonly OrganizationRef[]
  /** The time of the store at the return, in milliseconds since 1970. */
  readonly storeTime: number
}

/** A row of find_due_deliveries. */
type DueRow = readonly [
  reason: 'due' | 'expired' | 'retry' | 'claimed',
  organizationId: string,
  endpointId: string,
  state: string | null,
  isBackfill: boolean,
  lap: number | null,
  total: number,
]

/** Greatest number of deliveries that a node counts for each endpoint. */
const COUNT_LIMIT = 100

/** Asks the nodes for endpoints with due deliveries. */
export async function findDue(
  askNodes: AskNodes,
  { token, isRepeat, cursor, scanLimit }: ClaimRequest,
): Promise<Due> {
  const { answers, time } = await askNodes<readonly DueRow[]>(
    (sql) => sql`
      business_api.find_due_deliveries(
        ${isRepeat ? token : null}::text, ${cursor?.organizationId ?? null}::text, ${cursor?.endpointId ?? null}::text,
        ${scanLimit}::int, ${COUNT_LIMIT}::int
      )`,
  )
  const rows = answers.flat()
  const candidates = new Map<string, Candidate>()
  for (const [reason, organizationId, endpointId, state, isBackfill, , total] of rows) {
    if (reason === 'claimed') continue
    const key = JSON.stringify([organizationId, endpointId, isBackfill])
    const known = candidates.get(key)
    const hasRetry = reason === 'retry'
    if (known) {
      known.total += total
      known.hasRetry ||= hasRetry
    } else {
      const isAfter = cursor === null || compareEndpoints({ organizationId, endpointId }, cursor) > 0
      const lap = isAfter ? 0 : 1
      candidates.set(key, { organizationId, endpointId, isBackfill, state, lap, total, hasRetry })
    }
  }
  const inOrder = [...candidates.values()].sort((a, b) => a.lap - b.lap || compareEndpoints(a, b))
  return {
    first: inOrder.filter(({ isBackfill }) => !isBackfill),
    backfills: inOrder.filter(({ isBackfill }) => isBackfill),
    expired: organizationsOf(rows, 'expired'),
    claimed: organizationsOf(rows, 'claimed'),
    storeTime: time,
  }
}

function organizationsOf(rows: readonly DueRow[], wanted: DueRow[0]): readonly OrganizationRef[] {
  const ids = new Set(
    rows.filter(([reason]) => reason === wanted).map(([, organizationId]) => organizationId),
  )
  return Array.from(ids, (organizationId) => ({ organizationId }))
}

/** Compares endpoints as PostgreSQL does, by bytes. */
export function compareEndpoints(a: EndpointRef, b: EndpointRef): number {
  return compareBytes(a.organizationId, b.organizationId) || compareBytes(a.endpointId, b.endpointId)
}

function compareBytes(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b))
}
