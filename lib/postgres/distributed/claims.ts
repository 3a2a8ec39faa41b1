import type {
  ClaimedDelivery,
  ClaimRequest,
  Claims,
  DeadLetter,
  DeliveryStore,
  EndpointRef,
  UnreadDelivery,
} from '../../webhooks/deliveries.ts'
import type { AskNodes } from './ask-nodes.ts'
import type { Answered, ForEachOrganization } from './each-organization.ts'

// Longer than 250 lines: a claim over several nodes is read as a whole.
//
// A claim first asks all nodes, without locks, for endpoints with due deliveries (find_due_deliveries), and then claims from each
// organization by itself (claim_organization), from several at once. If another process claims the same deliveries in between, the
// claim gets fewer. A node that does not answer costs a claim the deliveries of the node, and no others. What such a node may have
// claimed all the same is given back by a later claim.

/** Organizations among which a part of a claim divides the bytes. */
const GROUPS_MAX = 16

/** Deliveries that a node counts at most for each endpoint. */
const COUNT_LIMIT = 100

/** Creates the claim of deliveries on a distributed database. */
export function createClaim(forEach: ForEachOrganization, askNodes: AskNodes): DeliveryStore['claim'] {
  /** Claims without an answer, which may hold deliveries. */
  const strays = new Set<Stray>()
  /** The organizations of calls that have failed as a whole, by token: a loop repeats such a call under the same token. */
  const failed = new Map<string, readonly string[]>()

  /** Claims from organizations, each with up to `maxBytes`. */
  async function claimFrom(
    groups: readonly Group[],
    claim: OpenClaim,
    isRest: boolean,
    maxBytes: number,
  ): Promise<readonly Answered<Group, OrganizationClaims>[]> {
    const { token, maxBytes: byteLimit, leaseMs } = claim.request
    const sent = new Map<Group, number>()
    const { answered, missed } = await forEach<Group, OrganizationClaims>(groups, (group, sql) => {
      // A statement that is sent again because its answer was lost may already have claimed deliveries.
      const earlier = sent.get(group) ?? 0
      sent.set(group, earlier + 1)
      claim.noteSent(group.organizationId)
      const isRepeat = group.isRepeat || earlier > 0
      return sql`
        business_api.claim_organization(
          ${group.organizationId}::text, ${token}::text, ${String(isRepeat)}::text::boolean,
          ${JSON.stringify(group.targets)}::text::jsonb, ${String(isRest)}::text::boolean, ${byteLimit}::int, ${maxBytes}::int,
          ${leaseMs}::float8
        )`
    })
    const isMissed = new Set(missed)
    for (const [group, times] of sent) {
      // The first of two statements may end after the second.
      if (isMissed.has(group) || times > 1) claim.miss(group.organizationId)
    }
    return answered
  }

  /** Claims from one organization with all bytes that are left. Null if its node does not answer. */
  async function claimAlone(
    group: Group,
    claim: OpenClaim,
    isRest: boolean,
  ): Promise<OrganizationClaims | null> {
    const [answered] = await claimFrom([group], claim, isRest, claim.bytesLeft())
    return answered?.answer ?? null
  }

  /** Claims from organizations, several at once, which share the bytes. */
  async function claimGroups(groups: readonly Group[], claim: OpenClaim, isRest: boolean): Promise<void> {
    const share = Math.floor(Math.max(0, claim.bytesLeft()) / groups.length)
    const answers = await claimFrom(groups, claim, isRest, share)
    for (const { answer } of answers) claim.add(answer)
    for (const { item: group, answer } of answers) {
      if (answer.cutEndpoint === null) continue
      // With what the others left, and from the endpoint whose delivery did not fit.
      const cutAt = group.targets.findIndex(({ endpointId }) => endpointId === answer.cutEndpoint)
      const rest = { ...group, targets: group.targets.slice(Math.max(0, cutAt)) }
      const again = groups.length === 1 ? answer : await claimAlone(claim.within(rest), claim, isRest)
      if (again && again !== answer) claim.add(again)
      if (again && again.cutEndpoint !== null) return claim.cut(group.organizationId, again.cutEndpoint)
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
        // A paused endpoint gives no delivery. Its due retries are moved, so that they hide no other retries from the nodes.
        if (candidate.state === 'paused' && !candidate.hasRetry) continue
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
      const answer = await claimAlone(group, claim, false)
      if (answer) claim.add(answer)
      if (answer && answer.cutEndpoint !== null) claim.cut(organizationId, answer.cutEndpoint)
    }
  }

  /** Frees the deliveries of dead processes. */
  async function reclaim(expired: readonly OrganizationRef[], claim: OpenClaim): Promise<void> {
    const { maxAttempts } = claim.request
    const { answered } = await forEach<OrganizationRef, readonly DeadLetter[]>(
      expired,
      ({ organizationId }, sql) =>
        sql`business_api.reclaim_leases_of(${organizationId}::text, ${maxAttempts}::int)`,
    )
    for (const { answer } of answered) claim.deadLetters.push(...answer)
  }

  /** Gives back what claims without an answer hold. A statement may still be under way: it is tried again until the lease has ended. */
  async function releaseStrays(): Promise<void> {
    const now = performance.now()
    for (const stray of strays) if (now > stray.leaseEndsAt) strays.delete(stray)
    const due = [...strays].filter(({ tryAt }) => now > tryAt)
    for (const stray of due) stray.tryAt = now + TRY_AGAIN_MS
    try {
      const { answered } = await forEach<Stray, number>(
        due,
        ({ organizationId, token, kept }, sql) => sql`
          business_api.release_claim_of(${organizationId}::text, ${token}::text, ${JSON.stringify(kept)}::text::jsonb)`,
      )
      for (const { item: stray, answer: released } of answered) if (released > 0) strays.delete(stray)
    } catch {
      // The lease ends all the same, and no claim must fail because of an earlier one.
    }
  }

  async function claimFromAll(claim: OpenClaim): Promise<EndpointRef | null> {
    const found = await findDue(askNodes, claim.request, claim)
    await reclaim(found.expired, claim)
    await repeat(found.claimed, claim)
    const next = await claimInTurn(found.first, claim, false)
    if (found.backfills.length === 0 || claim.left() <= 0) return next
    const nextBackfill = await claimInTurn(found.backfills, claim, next === null)
    return next ?? nextBackfill
  }

  return async (request) => {
    const claim = createOpenClaim(request)
    for (const organizationId of failed.get(request.token) ?? []) claim.miss(organizationId)
    await releaseStrays()
    try {
      const next = await claimFromAll(claim)
      failed.delete(request.token)
      for (const stray of claim.strays()) strays.add(stray)
      return claim.answer(next)
    } catch (error) {
      failed.set(request.token, claim.sentTo())
      throw error
    }
  }
}

/** A claim of an organization whose answer was lost. */
interface Stray {
  readonly organizationId: string
  readonly token: string
  /** The ids of deliveries that other answers to the claim have brought. */
  readonly kept: readonly string[]
  /** When the deliveries are given back next, and when the lease of the claim has ended, on the monotonic clock. */
  tryAt: number
  readonly leaseEndsAt: number
}

/** Time between two tries to give back what a claim holds, in milliseconds: most statements have ended before the first. */
const TRY_AGAIN_MS = 5000

const NOWHERE: EndpointRef = { organizationId: '', endpointId: '' }

function refOf(endpoint: EndpointRef | undefined): EndpointRef | undefined {
  return endpoint && { organizationId: endpoint.organizationId, endpointId: endpoint.endpointId }
}

// --- What the nodes have found ---

/** An endpoint with deliveries to claim. */
interface Candidate extends EndpointRef {
  readonly isBackfill: boolean
  readonly state: string | null
  /** The order of a claim: 0 after the cursor, 1 from the first endpoint to the cursor. */
  readonly lap: number
  /** The number of deliveries, or COUNT_LIMIT and more. */
  total: number
  /** True for an endpoint with due retries that a claim has not moved to the pending deliveries. */
  hasRetry: boolean
}

type OrganizationRef = Pick<EndpointRef, 'organizationId'>

/** The endpoints with something to do, of all nodes that answered. */
interface Due {
  readonly first: readonly Candidate[]
  readonly backfills: readonly Candidate[]
  /** Organizations with expired leases. */
  readonly expired: readonly OrganizationRef[]
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
  askNodes: AskNodes,
  { token, isRepeat, cursor, scanLimit }: ClaimRequest,
  claim: OpenClaim,
): Promise<Due> {
  const { answers, time } = await askNodes<readonly DueRow[]>(
    (sql) => sql`
      business_api.find_due_deliveries(
        ${isRepeat ? token : null}::text, ${cursor?.organizationId ?? null}::text, ${cursor?.endpointId ?? null}::text,
        ${scanLimit}::int, ${COUNT_LIMIT}::int
      )`,
  )
  claim.setTime(time)
  const rows = answers.flat()
  const candidates = new Map<string, Candidate>()
  for (const [reason, organizationId, endpointId, state, isBackfill, , total] of rows) {
    if (reason === 'claimed') continue
    const key = JSON.stringify([organizationId, endpointId, isBackfill])
    const known = candidates.get(key)
    if (known) {
      known.total += total
      known.hasRetry ||= reason === 'retry'
    } else {
      const isAfter = cursor === null || compareEndpoints({ organizationId, endpointId }, cursor) > 0
      candidates.set(key, {
        organizationId,
        endpointId,
        isBackfill,
        state,
        lap: isAfter ? 0 : 1,
        total,
        hasRetry: reason === 'retry',
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
    expired: organizationsWith('expired').map((organizationId) => ({ organizationId })),
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
  /** Notes that a claim from an organization was sent. */
  noteSent(organizationId: string): void
  /** The organizations from which deliveries may be claimed. */
  sentTo(): readonly string[]
  /** Notes that a claim from an organization had no answer. */
  miss(organizationId: string): void
  /** The claims without an answer. */
  strays(): readonly Stray[]
  left(): number
  bytesLeft(): number
  /** @param targets what the claim already wants from the organization */
  capacityOf(endpoint: EndpointRef, targets: Group['targets']): number
  /** Limits the budgets of a group to what may still be taken. */
  within(group: Group): Group
  answer(next: EndpointRef | null): Claims
}

function createOpenClaim(request: ClaimRequest): OpenClaim {
  const { limit, maxBytes, capacity, token, leaseMs } = request
  const deliveries = new Map<string, ClaimedDelivery>()
  const unread = new Map<string, UnreadDelivery>()
  const deadLetters: DeadLetter[] = []
  /** The times of claims without an answer, by organization. */
  const missed = new Map<string, number>()
  const sentTo = new Set<string>()
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
    noteSent(organizationId) {
      sentTo.add(organizationId)
    },
    sentTo: () => [...sentTo],
    miss(organizationId) {
      sentTo.add(organizationId)
      missed.set(organizationId, performance.now())
    },
    strays: () =>
      Array.from(missed, ([organizationId, missedAt]) => ({
        organizationId,
        token,
        kept: [...deliveries.values(), ...unread.values()]
          .filter((delivery) => delivery.organizationId === organizationId)
          .map(({ id }) => id),
        tryAt: missedAt + TRY_AGAIN_MS,
        leaseEndsAt: missedAt + leaseMs,
      })),
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
