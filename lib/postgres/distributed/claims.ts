import type {
  ClaimedDelivery,
  ClaimRequest,
  Claims,
  DeadLetter,
  DeliveryStore,
  EndpointRef,
  UnreadDelivery,
} from '../../webhooks/deliveries.ts'
import type { Database } from '../connection/database.ts'
import { callOrganization, forEach } from './each-organization.ts'
import type { LookAtNodes } from './nodes.ts'

// Longer than 250 lines: a claim over several nodes is read as a whole.
//
// A claim first looks at all nodes, without locks, for endpoints with due deliveries (find_due_deliveries), and then claims from each
// organization by itself (claim_organization), from several at once. If another process claims the same deliveries in between, the
// claim gets fewer.

/** Organizations among which a part of a claim divides the bytes. */
const GROUPS_MAX = 16

/** Deliveries that the look at the nodes counts at most for each endpoint. */
const COUNT_LIMIT = 100

/** Creates the claim of deliveries on a distributed database. */
export function createClaim(database: Database, look: LookAtNodes): DeliveryStore['claim'] {
  const call = callOrganization(database)

  async function claimOf(
    group: Group,
    claim: OpenClaim,
    isRest: boolean,
    maxBytes: number,
  ): Promise<OrganizationClaims> {
    const { token, maxBytes: byteLimit, leaseMs } = claim.request
    let sent = 0
    return call((sql) => {
      // A statement that is sent again because its answer was lost may already have claimed deliveries.
      const isRepeat = group.isRepeat || sent++ > 0
      return sql`
        business_api.claim_organization(
          ${group.organizationId}::text, ${token}::text, ${String(isRepeat)}::text::boolean,
          ${JSON.stringify(group.targets)}::text::jsonb, ${String(isRest)}::text::boolean, ${byteLimit}::int, ${maxBytes}::int,
          ${leaseMs}::float8
        )`
    })
  }

  /** Claims from organizations, several at once, which share the bytes. */
  async function claimGroups(groups: readonly Group[], claim: OpenClaim, isRest: boolean): Promise<void> {
    const share = Math.floor(Math.max(0, claim.bytesLeft()) / groups.length)
    const answers = await forEach(groups, (group) => claimOf(group, claim, isRest, share))
    for (const { answer } of answers) claim.add(answer)
    for (const { item: group, answer } of answers) {
      if (answer.cutEndpoint === null) continue
      // With what the others left, and from the endpoint whose delivery did not fit.
      const cutAt = group.targets.findIndex(({ endpointId }) => endpointId === answer.cutEndpoint)
      const rest = { ...group, targets: group.targets.slice(Math.max(0, cutAt)) }
      const again =
        groups.length === 1 ? answer : await claimOf(claim.within(rest), claim, isRest, claim.bytesLeft())
      if (again !== answer) claim.add(again)
      if (again.cutEndpoint !== null) return claim.cut(group.organizationId, again.cutEndpoint)
    }
  }

  /**
   * Claims from endpoints in turn, up to the limit of the claim.
   *
   * @returns the place of the last endpoint that was inspected; null if every endpoint was
   */
  async function claimInTurn(
    candidates: readonly Candidate[],
    claim: OpenClaim,
    isRest: boolean,
  ): Promise<EndpointRef | null> {
    const { scanLimit, cursor } = claim.request
    const inspected = candidates.slice(0, scanLimit)
    let place = 0
    while (place < inspected.length && claim.left() > 0) {
      const groups: Group[] = []
      let expected = claim.left()
      for (; place < inspected.length && expected > 0; place++) {
        const candidate = inspected[place] as Candidate
        const { organizationId, endpointId, isBackfill } = candidate
        if (candidate.state === 'paused') continue
        const last = groups.at(-1)
        const isSame = last?.organizationId === organizationId
        if (!isSame && groups.length === GROUPS_MAX) break
        const targets = isSame ? last.targets : []
        // The deliveries of an endpoint that is not enabled are skipped, and take no capacity.
        const budget =
          candidate.state === 'enabled'
            ? Math.min(expected, candidate.total, claim.capacityOf(candidate, targets))
            : 0
        if (budget <= 0 && candidate.state === 'enabled') continue
        if (!isSame) groups.push({ organizationId, isRepeat: false, targets })
        targets.push({ endpointId, budget, isBackfill })
        expected -= budget
      }
      if (groups.length > 0) await claimGroups(groups, claim, isRest)
      const cutAt = inspected.findIndex((candidate) => claim.isCutAt(candidate))
      if (cutAt >= 0) return refOf(inspected[cutAt - 1]) ?? cursor ?? NOWHERE
    }
    const isComplete = claim.left() > 0 && candidates.length < scanLimit
    return isComplete ? null : (refOf(inspected[place - 1]) ?? cursor ?? NOWHERE)
  }

  /** Gives the deliveries again that an earlier call with the same token claimed. */
  async function repeat(organizations: readonly string[], claim: OpenClaim): Promise<void> {
    for (const organizationId of organizations) {
      const group = { organizationId, isRepeat: true, targets: [] }
      const answer = await claimOf(group, claim, false, claim.bytesLeft())
      claim.add(answer)
      if (answer.cutEndpoint !== null) claim.cut(organizationId, answer.cutEndpoint)
    }
  }

  async function reclaim(organizationId: string, maxAttempts: number): Promise<readonly DeadLetter[]> {
    return call((sql) => sql`business_api.reclaim_leases_of(${organizationId}::text, ${maxAttempts}::int)`)
  }

  return async (request) => {
    const claim = createOpenClaim(request)
    const found = await findDue(look, request, claim)
    for (const { answer } of await forEach(found.expired, (id) => reclaim(id, request.maxAttempts))) {
      claim.deadLetters.push(...answer)
    }
    await repeat(found.claimed, claim)
    let next = await claimInTurn(found.first, claim, false)
    if (found.backfills.length > 0 && claim.left() > 0) {
      const nextBackfill = await claimInTurn(found.backfills, claim, next === null)
      next ??= nextBackfill
    }
    return claim.answer(next)
  }
}

const NOWHERE: EndpointRef = { organizationId: '', endpointId: '' }

function refOf(endpoint: EndpointRef | undefined): EndpointRef | undefined {
  return endpoint && { organizationId: endpoint.organizationId, endpointId: endpoint.endpointId }
}

// --- The look at the nodes ---

/** An endpoint with deliveries to claim. */
interface Candidate extends EndpointRef {
  readonly isBackfill: boolean
  readonly state: string | null
  /** The order of a claim: 0 after the cursor, 1 from the first endpoint to the cursor. */
  readonly lap: number
  /** The number of deliveries, or COUNT_LIMIT and more. */
  total: number
}

/** The endpoints with something to do, of all nodes that answered. */
interface Due {
  readonly first: readonly Candidate[]
  readonly backfills: readonly Candidate[]
  /** Organizations with expired leases. */
  readonly expired: readonly string[]
  /** Organizations with deliveries in flight under the token of a repeated claim. */
  readonly claimed: readonly string[]
}

type DueRow = readonly [
  reason: 'due' | 'expired' | 'retry' | 'claimed',
  organizationId: string,
  endpointId: string,
  state: string | null,
  isBackfill: boolean,
  lap: number | null,
  total: number,
]

async function findDue(
  look: LookAtNodes,
  { token, isRepeat, cursor, scanLimit }: ClaimRequest,
  claim: OpenClaim,
): Promise<Due> {
  const { answers, time } = await look<readonly DueRow[]>('find_due_deliveries', [
    isRepeat ? token : null,
    cursor?.organizationId ?? null,
    cursor?.endpointId ?? null,
    scanLimit,
    COUNT_LIMIT,
  ])
  claim.setTime(time)
  const rows = answers.flat()
  const candidates = new Map<string, Candidate>()
  for (const [reason, organizationId, endpointId, state, isBackfill, lap, total] of rows) {
    if (reason === 'claimed') continue
    const key = JSON.stringify([organizationId, endpointId, isBackfill])
    const known = candidates.get(key)
    if (known) known.total += total
    else {
      const isAfter = cursor === null || compareEndpoints({ organizationId, endpointId }, cursor) > 0
      candidates.set(key, {
        organizationId,
        endpointId,
        isBackfill,
        state,
        lap: lap ?? (isAfter ? 0 : 1),
        total,
      })
    }
  }
  const inOrder = [...candidates.values()].sort((a, b) => a.lap - b.lap || compareEndpoints(a, b))
  const organizationsWith = (wanted: string): string[] => [
    ...new Set(rows.filter(([reason]) => reason === wanted).map(([, organizationId]) => organizationId)),
  ]
  return {
    first: inOrder.filter(({ isBackfill }) => !isBackfill),
    backfills: inOrder.filter(({ isBackfill }) => isBackfill),
    expired: organizationsWith('expired'),
    claimed: organizationsWith('claimed'),
  }
}

/** Compares endpoints as PostgreSQL does, by bytes. */
function compareEndpoints(a: EndpointRef, b: EndpointRef): number {
  return compareBytes(a.organizationId, b.organizationId) || compareBytes(a.endpointId, b.endpointId)
}

function compareBytes(a: string, b: string): number {
  return a === b ? 0 : Buffer.compare(Buffer.from(a), Buffer.from(b))
}

// --- Claims ---

/** The endpoints of an organization from which a claim takes deliveries. */
interface Group {
  readonly organizationId: string
  readonly isRepeat: boolean
  readonly targets: { readonly endpointId: string; readonly budget: number; readonly isBackfill: boolean }[]
}

/** The answer of claim_organization. */
interface OrganizationClaims {
  readonly deliveries: readonly ClaimedDelivery[]
  readonly unread: readonly UnreadDelivery[]
  /** The endpoint of the first delivery that did not fit into the bytes; null: all fitted. */
  readonly cutEndpoint: string | null
}

/** A claim under way: what it has, and what it may still take. */
interface OpenClaim {
  readonly request: ClaimRequest
  readonly deadLetters: DeadLetter[]
  setTime(storeTime: number): void
  add(claims: OrganizationClaims): void
  /** Ends the claim at an endpoint whose delivery did not fit into the bytes. */
  cut(organizationId: string, endpointId: string): void
  isCutAt(endpoint: EndpointRef): boolean
  left(): number
  bytesLeft(): number
  /** @param targets what the claim already wants from the organization */
  capacityOf(endpoint: EndpointRef, targets: Group['targets']): number
  /** Limits the budgets of a group to what may still be taken. */
  within(group: Group): Group
  answer(next: EndpointRef | null): Claims
}

function createOpenClaim(request: ClaimRequest): OpenClaim {
  const { limit, maxBytes, capacity } = request
  const deliveries = new Map<string, ClaimedDelivery>()
  const unread = new Map<string, UnreadDelivery>()
  const deadLetters: DeadLetter[] = []
  const taken = new Map<string, number>()
  let bytes = 0
  let cutAt: EndpointRef | undefined
  let clock = { storeTime: 0, readAt: 0 }

  const take = (id: string): unknown => taken.set(id, (taken.get(id) ?? 0) + 1)
  const left = (): number => (cutAt ? 0 : limit - deliveries.size - unread.size)
  const organizationLeft = (id: string): number =>
    (capacity.organizations[id] ?? capacity.organization) - (taken.get(id) ?? 0)
  const endpointLeft = ({ organizationId, endpointId }: EndpointRef): number =>
    (capacity.endpoints[endpointId] ?? capacity.endpoint) -
    (taken.get(keyOf(organizationId, endpointId)) ?? 0)

  function count({ organizationId, endpointId }: EndpointRef): void {
    take(organizationId)
    take(keyOf(organizationId, endpointId))
  }

  return {
    request,
    deadLetters,
    setTime(storeTime) {
      clock = { storeTime, readAt: performance.now() }
    },
    add(claims) {
      for (const delivery of claims.deliveries) {
        const key = keyOf(delivery.organizationId, delivery.id)
        if (deliveries.has(key)) continue
        deliveries.set(key, delivery)
        bytes += Buffer.byteLength(delivery.body)
        count(delivery)
      }
      for (const delivery of claims.unread) {
        const key = keyOf(delivery.organizationId, delivery.id)
        if (unread.has(key)) continue
        unread.set(key, delivery)
        count(delivery)
      }
    },
    cut(organizationId, endpointId) {
      cutAt = { organizationId, endpointId }
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
    answer: (next) => ({
      deliveries: [...deliveries.values()],
      unread: [...unread.values()],
      deadLetters,
      storeTime: clock.storeTime + (performance.now() - clock.readAt),
      next,
    }),
  }
}

function keyOf(organizationId: string, id: string): string {
  return `${organizationId} ${id}`
}
