import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createClaim } from '../../lib/postgres/distributed/claims.ts'
import type { ForEachOrganization } from '../../lib/postgres/distributed/each-organization.ts'
import {
  createUnansweredClaims,
  type SentClaims,
  type UnansweredClaims,
} from '../../lib/postgres/distributed/unanswered-claims.ts'
import type { ClaimRequest, DeliveryStore } from '../../lib/webhooks/deliveries.ts'

// What becomes of claims without an answer, on statements that the test answers, with a clock that the test moves. citus-nodes.test.ts
// does the same with real nodes.

const TRY_AGAIN_MS = 5000
const LEASE_MS = 30_000

describe('createUnansweredClaims()', () => {
  let now = 0
  /** What was given back: organization, token, deliveries to keep. */
  let released: string[]
  /** Deliveries that a statement finds, by organization; an absent organization does not answer. */
  let found: Record<string, number>
  let unanswered: UnansweredClaims

  beforeEach(() => {
    now = 1_000_000
    mock.method(performance, 'now', () => now)
    released = []
    found = {}
    const forEach = (async (items: readonly { organizationId: string }[], build: never) => {
      const missed = items.filter(({ organizationId }) => found[organizationId] === undefined)
      const answered = items.filter((item) => !missed.includes(item))
      for (const item of items) {
        const sql = (_: unknown, ...values: readonly string[]) => released.push(values.join(' '))
        ;(build as (item: object, sql: unknown) => void)(item, sql)
      }
      return {
        answered: answered.map((item) => ({ item, answer: found[item.organizationId] })),
        missed,
        error: storeUnavailable('No answer'),
      }
    }) as unknown as ForEachOrganization
    unanswered = createUnansweredClaims(forEach)
  })
  afterEach(() => mock.restoreAll())

  const begin = (token: string) => unanswered.begin({ token, leaseMs: LEASE_MS } as ClaimRequest)

  /** Notes a claim that was sent and has no answer. */
  function miss(claims: SentClaims, organizationId: string): void {
    claims.noteSent(organizationId)
    claims.noteUnanswered(organizationId)
  }

  /** Lets time pass, and tells what is given back then. */
  async function givenBackAfter(ms: number): Promise<string[]> {
    now += ms
    released.length = 0
    await unanswered.giveBack()
    return released
  }

  test('a claim without an answer is given back after five seconds, without the deliveries that were returned', async () => {
    const claims = begin('clm_1')
    for (const id of ['org_a', 'org_b', 'org_c']) claims.noteSent(id)
    miss(claims, 'org_b')
    miss(claims, 'org_c')
    claims.end([
      { organizationId: 'org_a', id: 'dlv_1' },
      { organizationId: 'org_b', id: 'dlv_2' },
    ])
    found = { org_b: 1, org_c: 2 }
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS), [])
    assert.deepEqual(await givenBackAfter(1), ['org_b clm_1 ["dlv_2"]', 'org_c clm_1 []'])
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS + 1), [])
  })

  test('a claim that holds nothing yet, or whose node does not answer, is given back again until the lease has ended', async () => {
    const claims = begin('clm_1')
    miss(claims, 'org_late')
    miss(claims, 'org_silent')
    claims.end([])
    found = { org_late: 0 }
    const both = ['org_late clm_1 []', 'org_silent clm_1 []']
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS + 1), both)
    assert.deepEqual(await givenBackAfter(1), [])
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS), both)
    found = { org_late: 1 }
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS + 1), both)
    const passedMs = 3 * TRY_AGAIN_MS + 3
    assert.deepEqual(await givenBackAfter(LEASE_MS - passedMs), ['org_silent clm_1 []'])
    assert.deepEqual(await givenBackAfter(1), [])
  })

  test('the claims of a call that failed as a whole are not given back before the repeated call', async () => {
    const claims = begin('clm_1')
    claims.noteSent('org_a')
    miss(claims, 'org_b')
    claims.fail()
    found = { org_a: 1, org_b: 1 }
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS + 1), [])
  })

  test('the repeated call takes over what the failed calls had sent', async () => {
    for (const id of ['org_a', 'org_b']) {
      const claims = begin('clm_1')
      claims.noteSent(id)
      claims.fail()
    }
    const repeated = begin('clm_1')
    repeated.noteSent('org_c')
    repeated.end([{ organizationId: 'org_a', id: 'dlv_1' }])
    found = { org_a: 0, org_b: 1 }
    assert.deepEqual((await givenBackAfter(TRY_AGAIN_MS + 1)).sort(), [
      'org_a clm_1 ["dlv_1"]',
      'org_b clm_1 []',
    ])
  })

  test('a failed call says nothing of calls after the repeated one, nor of another token', async () => {
    const failed = begin('clm_1')
    failed.noteSent('org_a')
    failed.fail()
    begin('clm_2').end([])
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS + 1), [])
    begin('clm_1').end([])
    begin('clm_1').end([])
    found = { org_a: 1 }
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS + 1), ['org_a clm_1 []'])
  })

  test('a claim that was not sent is not given back', async () => {
    const claims = begin('clm_1')
    claims.noteUnanswered('org_a')
    claims.end([])
    found = { org_a: 1 }
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS + 1), [])
  })

  test('an error of giving back fails no claim', async () => {
    let tries = 0
    unanswered = createUnansweredClaims(() => {
      tries++
      return Promise.reject(storeUnavailable('No node answers'))
    })
    const claims = begin('clm_1')
    miss(claims, 'org_a')
    claims.end([])
    await givenBackAfter(TRY_AGAIN_MS + 1)
    assert.equal(tries, 1)
  })
})

describe('createClaim() of a distributed database', () => {
  type Item = { readonly organizationId: string }
  type Row = readonly [string, string, string, string, boolean, number, number]

  let now = 0
  /** The calls of functions that were sent: the name, and the first three values. */
  let calls: string[]
  let rows: Row[]
  /** Organizations whose node does not answer, and organizations that are left out without a statement. */
  let silent: readonly string[]
  let leftOut: readonly string[]
  /** The functions that are sent once only. */
  let sentOnce: Set<string | undefined>
  /** An error of the call as a whole, after its statements were sent. */
  let error: Error | undefined
  let claim: DeliveryStore['claim']

  beforeEach(() => {
    now = 1_000_000
    mock.method(performance, 'now', () => now)
    calls = []
    rows = []
    silent = []
    leftOut = []
    sentOnce = new Set()
    error = undefined
    const forEach = async (
      items: readonly Item[],
      build: (item: Item, sql: unknown) => string,
      { isOnce = false } = {},
    ) => {
      const sql = (texts: readonly string[], ...values: readonly unknown[]) => {
        const name = /business_api\.(\w+)/.exec(texts[0] ?? '')?.[1]
        calls.push(`${name} ${values.slice(0, 3).join(' ')}`)
        return name
      }
      const answered = []
      for (const item of items) {
        const { organizationId } = item
        if (leftOut.includes(organizationId)) continue
        const name = build(item, sql)
        if (isOnce) sentOnce.add(name)
        const deliveries = [
          { organizationId, id: `dlv_of_${organizationId}`, endpointId: 'we_1', body: '{}' },
        ]
        const claims = { deliveries, unread: [], cutEndpoint: null }
        if (silent.includes(organizationId)) continue
        answered.push({ item, answer: name === 'release_claim_of' ? 1 : claims })
      }
      if (error !== undefined && items.length > 0) throw error
      const missed = items.filter(({ organizationId }) => [...silent, ...leftOut].includes(organizationId))
      return { answered, missed, error: storeUnavailable('No answer') }
    }
    const askNodes = async () => ({ answers: [rows], isPartial: false, time: 0 })
    claim = createClaim(forEach as unknown as ForEachOrganization, askNodes as never)
  })
  afterEach(() => mock.restoreAll())

  const due = (organizationId: string): Row => ['due', organizationId, 'we_1', 'enabled', false, 0, 1]
  const held = (organizationId: string): Row => ['claimed', organizationId, 'we_1', 'enabled', false, 0, 1]

  /** Claims, and tells the organizations whose deliveries came. */
  async function claimFrom(token: string, isRepeat = false): Promise<string[]> {
    const { deliveries } = await claim({
      token,
      isRepeat,
      limit: 10,
      maxBytes: 1000,
      capacity: { endpoint: 1, organization: 1, endpoints: {}, organizations: {} },
      scanLimit: 10,
      cursor: null,
      leaseMs: LEASE_MS,
      maxAttempts: 5,
    })
    return deliveries.map(({ organizationId }) => organizationId)
  }

  /** Lets the time come, and tells what the next claim gives back. */
  async function givenBack(): Promise<string[]> {
    rows = []
    calls = []
    now += TRY_AGAIN_MS + 1
    await claimFrom('clm_next')
    return calls
  }

  test('gives back the claims of a silent node, and asks nothing of an organization that was left out', async () => {
    rows = [due('org_a'), due('org_b'), due('org_c')]
    silent = ['org_b']
    leftOut = ['org_c']
    assert.deepEqual(await claimFrom('clm_1'), ['org_a'])
    assert.deepEqual(calls, ['claim_organization org_a clm_1 false', 'claim_organization org_b clm_1 false'])
    silent = []
    leftOut = []
    assert.deepEqual(await givenBack(), ['release_claim_of org_b clm_1 []'])
  })

  test('sends each claim once, because a claim that is sent again could free what the call returns', async () => {
    rows = [due('org_a')]
    await claimFrom('clm_1')
    assert.deepEqual([...sentOnce], ['claim_organization'])
  })

  test('gives the deliveries again that a repeated call holds, once', async () => {
    rows = [held('org_a'), due('org_b')]
    assert.deepEqual(await claimFrom('clm_1', true), ['org_a', 'org_b'])
    assert.deepEqual(calls, ['claim_organization org_a clm_1 true', 'claim_organization org_b clm_1 false'])
    assert.deepEqual(await givenBack(), [])
  })

  test('gives back what a call that failed as a whole may hold, once the repeated call has an answer', async () => {
    rows = [due('org_a'), due('org_b')]
    error = storeUnavailable('No answer')
    await assert.rejects(claimFrom('clm_1'), { code: 'store_unavailable' })
    error = undefined
    rows = [held('org_b')]
    assert.deepEqual(await claimFrom('clm_1', true), ['org_b'])
    assert.deepEqual(await givenBack(), [
      'release_claim_of org_a clm_1 []',
      'release_claim_of org_b clm_1 ["dlv_of_org_b"]',
    ])
  })
})
