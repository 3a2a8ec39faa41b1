import { storeUnavailable } from '../../base/errors.ts'
import { withDeadline } from '../../base/time.ts'
import type {
  AttemptResult,
  ClaimedDelivery,
  ClaimRef,
  DeliveryStore,
  FailureLimit,
  ResultReport,
} from '../../webhooks/deliveries.ts'
import type { Database } from '../connection/database.ts'
import { createClaim } from './claims.ts'
import { callOrganization, forEach, groupByOrganization } from './each-organization.ts'
import { type LookAtNodes, PATIENCE_MS } from './nodes.ts'

// The delivery loop's verbs on a distributed database, where one step locks and changes rows of one organization only, on the node
// that has the organization: see sql/0037-loops-of-one-organization.sql. A node that does not answer costs a call its own
// organizations, and no other.

/** The delivery loop's verbs that differ on a distributed database. */
export type LoopStore = Pick<DeliveryStore, 'claim' | 'read' | 'writeResults'> & {
  /** Gives claims back: see `DeliveryStore.release`. @returns the number of deliveries that are due again */
  release(claims: readonly ClaimRef[]): Promise<number>
}

function notInTime(): Error {
  return storeUnavailable(
    'Cannot write results of attempts because the node of the organization does not answer',
  )
}

/** Creates the delivery loop's verbs for a distributed database. */
export function createDistributedLoopStore(database: Database, look: LookAtNodes): LoopStore {
  const call = callOrganization(database)

  /** Organizations of which an earlier write is still under way. */
  const late = new Set<string>()

  /**
   * Writes the results of an organization. A node that does not answer in time may write them later: they are sent again, and the answer
   * is then repeated. Meanwhile nothing waits for the organization.
   */
  async function writeResultsOf(
    organizationId: string,
    results: readonly AttemptResult[],
    limit: FailureLimit,
  ): Promise<ResultReport> {
    if (late.has(organizationId)) throw notInTime()
    const write = call<ResultReport>(
      (sql) => sql`
        business_api.write_results_of(
          ${organizationId}::text, ${JSON.stringify(results)}::text::jsonb, ${limit.failures}::int, ${limit.failingMs}::float8
        )`,
    )
    const report = await withDeadline(write, PATIENCE_MS, () => null)
    if (report !== null) return report
    late.add(organizationId)
    const end = (): boolean => late.delete(organizationId)
    write.then(end, end)
    throw notInTime()
  }

  return {
    claim: createClaim(database, look),

    async read(claims) {
      const answers = await forEach(groupByOrganization(claims), ([organizationId, own]) =>
        call<readonly ClaimedDelivery[]>(
          (sql) => sql`
            business_api.read_claims_of(${organizationId}::text, ${JSON.stringify(own)}::text::jsonb)`,
        ),
      )
      const found = new Map(
        answers.flatMap(({ answer }) =>
          answer.map((delivery) => [JSON.stringify([delivery.organizationId, delivery.id]), delivery]),
        ),
      )
      return claims.flatMap(
        ({ organizationId, deliveryId }) => found.get(JSON.stringify([organizationId, deliveryId])) ?? [],
      )
    },

    async writeResults(results, limit) {
      const groups = groupByOrganization(results)
      // Without an error even if no organization can be reached: the next results may be those of others.
      const answers = await forEach(
        groups,
        ([organizationId, own]) => writeResultsOf(organizationId, own, limit),
        { mayFailWhole: true },
      )
      const written = new Set(answers.map(({ item: [organizationId] }) => organizationId))
      const unwritten = results.filter(({ organizationId }) => !written.has(organizationId))
      return {
        lost: answers.flatMap(({ answer }) => answer.lost),
        endpoints: answers.flatMap(({ answer }) => answer.endpoints),
        deadLetters: answers.flatMap(({ answer }) => answer.deadLetters),
        ...(unwritten.length > 0 && { unwritten }),
      }
    },

    async release(claims) {
      const answers = await forEach(groupByOrganization(claims), ([organizationId, own]) =>
        call<number>(
          (sql) => sql`
            business_api.release_claims_of(${organizationId}::text, ${JSON.stringify(own)}::text::jsonb)`,
        ),
      )
      return answers.reduce((sum, { answer }) => sum + answer, 0)
    },
  }
}
