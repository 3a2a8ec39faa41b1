import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createClaim } from '../../lib/postgres/distributed/claims.ts'
import type { ForEachOrganization } from '../../lib/postgres/distributed/each-organization.ts'
import {
  createUnansweredClaims,
  type UnansweredClaims,
} from '../../lib/postgres/distributed/unanswered-claims.ts'
import type { ClaimRequest } from '../../lib/webhooks/deliveries.ts'

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
    claims.noteUnanswered('org_b')
    claims.noteUnanswered('org_c')
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
    claims.noteUnanswered('org_late')
    claims.noteUnanswered('org_silent')
    claims.end([])
    found = { org_late: 0 }
    const both = ['org_late clm_1 []', 'org_silent clm_1 []']
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS + 1), both)
    assert.deepEqual(await givenBackAfter(1), [])
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS), both)
    found = { org_late: 1 }
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS + 1), both)
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS + 1), ['org_silent clm_1 []'])
    assert.deepEqual(await givenBackAfter(LEASE_MS), [])
  })

  test('a call that failed as a whole holds nothing back while it can be repeated', async () => {
    const claims = begin('clm_1')
    claims.noteSent('org_a')
    claims.noteUnanswered('org_b')
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

  test('the call after that begins with nothing, and so does a call with another token', async () => {
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

  test('an error of giving back fails no claim', async () => {
    unanswered = createUnansweredClaims(() => Promise.reject(storeUnavailable('No node answers')))
    const claims = begin('clm_1')
    claims.noteUnanswered('org_a')
    claims.end([])
    assert.deepEqual(await givenBackAfter(TRY_AGAIN_MS + 1), [])
  })
})

describe('createClaim() of a distributed database', () => {
  afterEach(() => mock.restoreAll())

  test('gives back what a call that failed as a whole may hold, once the repeated call has an answer', async () => {
    let now = 1_000_000
    mock.method(performance, 'now', () => now)
    const due = ['due', 'org_a', 'we_1', 'enabled', false, 0, 1]
    let error: Error | undefined = storeUnavailable('No answer')
    const calls: string[] = []
    const forEach = (async (items: readonly object[], build: (item: object, sql: unknown) => void) => {
      const sql = (texts: readonly string[], ...values: readonly unknown[]) =>
        calls.push(`${texts[0]?.trim().replace('(', '')} ${values[0]} ${values[1]}`)
      for (const item of items) build(item, sql)
      if (items.length > 0 && error !== undefined) throw error
      const answer = { deliveries: [], unread: [], cutEndpoint: null }
      return { answered: items.map((item) => ({ item, answer })), missed: [], error: undefined }
    }) as unknown as ForEachOrganization
    const rows: unknown[][] = [due]
    const claim = createClaim(forEach, (async () => ({
      answers: [rows],
      isPartial: false,
      time: 0,
    })) as never)
    const request = {
      token: 'clm_1',
      isRepeat: false,
      limit: 10,
      maxBytes: 1000,
      capacity: { endpoint: 1, organization: 1, endpoints: {}, organizations: {} },
      scanLimit: 10,
      cursor: null,
      leaseMs: LEASE_MS,
      maxAttempts: 5,
    }
    await assert.rejects(claim(request), { code: 'store_unavailable' })
    error = undefined
    rows.length = 0
    await claim({ ...request, isRepeat: true })
    calls.length = 0
    now += TRY_AGAIN_MS + 1
    await claim({ ...request, token: 'clm_2' })
    assert.deepEqual(calls, ['business_api.release_claim_of org_a clm_1'])
  })
})
