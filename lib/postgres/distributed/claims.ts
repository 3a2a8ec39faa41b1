import type { DeadLetter, DeliveryStore, EndpointRef } from '../../webhooks/deliveries.ts'
import type { AskNodes } from './ask-nodes.ts'
import { type Candidate, findDue, type OrganizationRef } from './due.ts'
import type { Answered, ForEachOrganization } from './each-organization.ts'
import { createOpenClaim, type Group, type OpenClaim, type OrganizationClaims } from './open-claim.ts'
import { createUnansweredClaims } from './unanswered-claims.ts'

// A claim first asks all nodes, without locks, for endpoints with due deliveries (due.ts), and then claims from each organization by
// itself (claim_organization), from several at once. If another process claims the same deliveries in between, the claim gets fewer.
// A claim gets no deliveries of a node that does not answer, and all others. A later claim gives back the deliveries that such a node
// may have claimed (unanswered-claims.ts).

/** Organizations among which a part of a claim divides the bytes. */
const GROUPS_MAX = 16

const NOWHERE: EndpointRef = { organizationId: '', endpointId: '' }

/** Creates the claim of deliveries on a distributed database. */
export function createClaim(forEach: ForEachOrganization, askNodes: AskNodes): DeliveryStore['claim'] {
  const unanswered = createUnansweredClaims(forEach)

  /** Claims from organizations, each with up to `maxBytes`. */
  async function claimFrom(
    groups: readonly Group[],
    { request, sentClaims }: OpenClaim,
    isRest: boolean,
    maxBytes: number,
  ): Promise<readonly Answered<Group, OrganizationClaims>[]> {
    const { token, maxBytes: byteLimit, leaseMs } = request
    const { answered, missed } = await forEach<Group, OrganizationClaims>(
      groups,
      ({ organizationId, isRepeat, targets }, sql) => {
        sentClaims.noteSent(organizationId)
        return sql`
          business_api.claim_organization(
            ${organizationId}::text, ${token}::text, ${String(isRepeat)}::text::boolean,
            ${JSON.stringify(targets)}::text::jsonb, ${String(isRest)}::text::boolean, ${byteLimit}::int, ${maxBytes}::int,
            ${leaseMs}::float8
          )`
      },
      // A second claim from an organization, sent again, could free deliveries of the first, which the call returns.
      { isOnce: true },
    )
    for (const { organizationId } of missed) sentClaims.noteUnanswered(organizationId)
    return answered
  }

  /** Claims from several organizations at once: each gets an equal share of the bytes. Deliveries under the token come again. */
  async function claimGroups(groups: readonly Group[], claim: OpenClaim, isRest: boolean): Promise<void> {
    const share = Math.floor(Math.max(0, claim.bytesLeft()) / groups.length)
    const answers = await claimFrom(groups, claim, isRest, share)
    for (const { answer } of answers) claim.add(answer)
    for (const { item: group, answer } of answers) {
      const { organizationId } = group
      let { cutEndpoint } = answer
      if (cutEndpoint !== null && groups.length > 1) {
        // With all bytes that are left, and from the endpoint of the delivery that did not fit.
        const cutAt = group.targets.findIndex(({ endpointId }) => endpointId === cutEndpoint)
        const rest = claim.within({ ...group, targets: group.targets.slice(Math.max(0, cutAt)) })
        const [again] = await claimFrom([rest], claim, isRest, claim.bytesLeft())
        if (again) claim.add(again.answer)
        cutEndpoint = again?.answer.cutEndpoint ?? null
      }
      if (cutEndpoint !== null) return claim.cut({ organizationId, endpointId: cutEndpoint })
    }
  }

  /**
   * Claims from endpoints in turn, up to the limit of the claim.
   *
   * @returns the place of the last endpoint that was inspected; null if every endpoint was inspected
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
        // A paused endpoint gives no delivery. The claim moves the due retries, because retries that stay hide other retries.
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

  /** @returns the place where the next claim continues; null: at the first endpoint */
  async function claimFromAll(claim: OpenClaim): Promise<EndpointRef | null> {
    const found = await findDue(askNodes, claim.request)
    claim.setTime(found.storeTime)
    await reclaim(found.expired, claim)
    for (const { organizationId } of found.claimed) {
      await claimGroups([{ organizationId, isRepeat: true, targets: [] }], claim, false)
    }
    const next = await claimInTurn(found.first, claim, false)
    if (found.backfills.length === 0 || claim.left() <= 0) return next
    const nextBackfill = await claimInTurn(found.backfills, claim, next === null)
    return next ?? nextBackfill
  }

  return async (request) => {
    await unanswered.giveBack()
    const claim = createOpenClaim(request, unanswered.begin(request))
    try {
      const next = await claimFromAll(claim)
      claim.sentClaims.end(claim.claimed())
      return claim.answer(next)
    } catch (error) {
      claim.sentClaims.fail()
      throw error
    }
  }
}

function refOf(endpoint: EndpointRef | undefined): EndpointRef | undefined {
  return endpoint && { organizationId: endpoint.organizationId, endpointId: endpoint.endpointId }
}
