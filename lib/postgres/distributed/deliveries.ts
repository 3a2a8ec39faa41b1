import type {
  AttemptResult,
  ClaimedDelivery,
  ClaimRef,
  DeliveryStore,
  ResultReport,
} from '../../webhooks/deliveries.ts'
import type { Database } from '../connection/database.ts'
import type { AskNodes } from './ask-nodes.ts'
import { createClaim } from './claims.ts'
import { createForEachOrganization, groupByOrganization, type OwnItems } from './each-organization.ts'
import type { Nodes } from './nodes.ts'

// The delivery loop's verbs on a distributed database, where one step locks and changes rows of one organization only, on the node
// that has the organization: see sql/0037-loops-of-one-organization.sql. Results and releases leave out the organizations of a node
// that does not answer; a read fails.

/** The delivery loop's verbs that differ on a distributed database. */
export type LoopStore = Pick<DeliveryStore, 'claim' | 'read' | 'writeResults'> & {
  /** Gives claims back: see `DeliveryStore.release`. */
  release(claims: readonly ClaimRef[]): Promise<Released>
}

/** The outcome of a release. */
export interface Released {
  /** The number of deliveries that are due again. */
  readonly released: number
  /** Claims of organizations that were left out. */
  readonly unreleased: readonly ClaimRef[]
}

/** Creates the delivery loop's verbs for a distributed database. */
export function createDistributedLoopStore(database: Database, nodes: Nodes, askNodes: AskNodes): LoopStore {
  const forEach = createForEachOrganization(database, nodes)

  return {
    claim: createClaim(forEach, askNodes),

    async read(claims) {
      const { answered, missed, error } = await forEach<OwnItems<ClaimRef>, readonly ClaimedDelivery[]>(
        groupByOrganization(claims),
        ({ organizationId, own }, sql) => sql`
          business_api.read_claims_of(${organizationId}::text, ${JSON.stringify(own)}::text::jsonb)`,
      )
      // A delivery that is left out would count as gone.
      if (missed.length > 0) throw error
      const found = new Map(
        answered.flatMap(({ answer }) => answer.map((delivery) => [keyOf(delivery, delivery.id), delivery])),
      )
      return claims.flatMap((claim) => found.get(keyOf(claim, claim.deliveryId)) ?? [])
    },

    async writeResults(results, { failures, failingMs }) {
      // Results that were written without an answer are sent again, and the node then repeats the answer.
      const { answered, missed } = await forEach<OwnItems<AttemptResult>, ResultReport>(
        groupByOrganization(results),
        ({ organizationId, own }, sql) => sql`
          business_api.write_results_of(
            ${organizationId}::text, ${JSON.stringify(own)}::text::jsonb, ${failures}::int, ${failingMs}::float8
          )`,
      )
      return {
        lost: answered.flatMap(({ answer }) => answer.lost),
        endpoints: answered.flatMap(({ answer }) => answer.endpoints),
        deadLetters: answered.flatMap(({ answer }) => answer.deadLetters),
        ...(missed.length > 0 && { unwritten: missed.flatMap(({ own }) => own) }),
      }
    },

    async release(claims) {
      const { answered, missed } = await forEach<OwnItems<ClaimRef>, number>(
        groupByOrganization(claims),
        ({ organizationId, own }, sql) => sql`
          business_api.release_claims_of(${organizationId}::text, ${JSON.stringify(own)}::text::jsonb)`,
      )
      return {
        released: answered.reduce((sum, { answer }) => sum + answer, 0),
        unreleased: missed.flatMap(({ own }) => own),
      }
    },
  }
}

function keyOf({ organizationId }: { readonly organizationId: string }, deliveryId: string): string {
  return JSON.stringify([organizationId, deliveryId])
}
