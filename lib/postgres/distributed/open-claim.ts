import type {
  ClaimedDelivery,
  ClaimRequest,
  Claims,
  DeadLetter,
  EndpointRef,
  UnreadDelivery,
} from '../../webhooks/deliveries.ts'
import { compareEndpoints } from './due.ts'
import type { ClaimedId, SentClaims } from './unanswered-claims.ts'

// The state of a claim over several organizations: deliveries so far, and limits for the rest.

/** The endpoints of an organization from which a claim takes deliveries. */
export interface Group {
  readonly organizationId: string
  readonly isRepeat: boolean
  readonly targets: { readonly endpointId: string; readonly budget: number; readonly isBackfill: boolean }[]
}

/** The answer of claim_organization. */
export interface OrganizationClaims {
  readonly deliveries: readonly ClaimedDelivery[]
  readonly unread: readonly UnreadDelivery[]
  /** The endpoint of the first delivery that did not fit into the bytes; null if all deliveries did. */
  readonly cutEndpoint: string | null
}

/** A claim under way. */
export interface OpenClaim {
  readonly request: ClaimRequest
  readonly sentClaims: SentClaims
  readonly deadLetters: DeadLetter[]
  /** @param storeTime the time of the store now */
  setTime(storeTime: number): void
  add(claims: OrganizationClaims): void
  /** Ends the claim at the endpoint of a delivery that did not fit into the bytes. */
  cut(endpoint: EndpointRef): void
  isCutAt(endpoint: EndpointRef): boolean
  /** The number of deliveries that may still be taken. */
  left(): number
  bytesLeft(): number
  /** @param targets the endpoints of the same organization before this endpoint */
  capacityOf(endpoint: EndpointRef, targets: Group['targets']): number
  /** Limits the budgets of a group to the rest. */
  within(group: Group): Group
  /** The deliveries with and without content. */
  claimed(): readonly ClaimedId[]
  answer(next: EndpointRef | null): Claims
}

/** Begins a claim. */
export function createOpenClaim(request: ClaimRequest, sentClaims: SentClaims): OpenClaim {
  const { limit, maxBytes, capacity } = request
  const deliveries = new Map<string, ClaimedDelivery>()
  const unread = new Map<string, UnreadDelivery>()
  const deadLetters: DeadLetter[] = []
  /** Deliveries taken, by organization and by endpoint. */
  const taken = new Map<string, number>()
  let bytes = 0
  let cutAt: EndpointRef | undefined
  let clock = { storeTime: 0, readAt: 0 }

  const left = (): number => (cutAt ? 0 : limit - deliveries.size - unread.size)
  const organizationLeft = (id: string): number =>
    budgetOf(capacity.organizations, id, capacity.organization) - (taken.get(id) ?? 0)
  const endpointLeft = ({ organizationId, endpointId }: EndpointRef): number =>
    budgetOf(capacity.endpoints, endpointId, capacity.endpoint) -
    (taken.get(keyOf(organizationId, endpointId)) ?? 0)

  /** @returns false for a known delivery: a claim from the same organization can bring a delivery again */
  function addNew<Delivery extends ClaimedId & EndpointRef>(
    known: Map<string, Delivery>,
    delivery: Delivery,
  ): boolean {
    const { organizationId, id, endpointId } = delivery
    const key = keyOf(organizationId, id)
    if (known.has(key)) return false
    known.set(key, delivery)
    for (const owner of [organizationId, keyOf(organizationId, endpointId)]) {
      taken.set(owner, (taken.get(owner) ?? 0) + 1)
    }
    return true
  }

  return {
    request,
    sentClaims,
    deadLetters,
    setTime(storeTime) {
      clock = { storeTime, readAt: performance.now() }
    },
    add(claims) {
      for (const delivery of claims.deliveries) {
        if (addNew(deliveries, delivery)) bytes += Buffer.byteLength(delivery.body)
      }
      for (const delivery of claims.unread) addNew(unread, delivery)
    },
    cut(endpoint) {
      cutAt = endpoint
    },
    isCutAt: (endpoint) => cutAt !== undefined && compareEndpoints(endpoint, cutAt) === 0,
    left,
    bytesLeft: () => maxBytes - bytes,
    capacityOf(endpoint, targets) {
      const wanted = targets.reduce((sum, { budget }) => sum + budget, 0)
      return Math.min(organizationLeft(endpoint.organizationId) - wanted, endpointLeft(endpoint))
    },
    within({ organizationId, isRepeat, targets }) {
      let rest = Math.min(left(), organizationLeft(organizationId))
      const limited = targets.map((target) => {
        const most = Math.min(rest, endpointLeft({ organizationId, endpointId: target.endpointId }))
        const budget = Math.max(0, Math.min(target.budget, most))
        rest -= budget
        return { ...target, budget }
      })
      return { organizationId, isRepeat, targets: limited }
    },
    claimed: () => [...deliveries.values(), ...unread.values()],
    answer: (next) => ({
      deliveries: [...deliveries.values()],
      unread: [...unread.values()],
      deadLetters,
      storeTime: clock.storeTime + (performance.now() - clock.readAt),
      next,
    }),
  }
}

/** Returns the limit of an id. An id that the host chose can be the name of a method of every object: `constructor`. */
function budgetOf(budgets: Readonly<Record<string, number>>, id: string, otherwise: number): number {
  return Object.hasOwn(budgets, id) ? (budgets[id] ?? otherwise) : otherwise
}

function keyOf(organizationId: string, id: string): string {
  return JSON.stringify([organizationId, id])
}
