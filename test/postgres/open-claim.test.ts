import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOpenClaim } from '../../lib/postgres/distributed/open-claim.ts'
import type { SentClaims } from '../../lib/postgres/distributed/unanswered-claims.ts'

test('a claim on a cluster limits organizations and endpoints with any id', () => {
  const request = {
    token: 'clm_1',
    isRepeat: false,
    limit: 100,
    maxBytes: 1000,
    capacity: { endpoint: 3, organization: 5, endpoints: { we_busy: 1 }, organizations: { org_busy: 2 } },
    scanLimit: 10,
    cursor: null,
    leaseMs: 60_000,
    maxAttempts: 5,
  }
  const claim = createOpenClaim(request, {} as SentClaims)
  const budgetsOf = (organizationId: string, ...endpointIds: string[]): number[] =>
    claim
      .within({
        organizationId,
        isRepeat: false,
        targets: endpointIds.map((endpointId) => ({ endpointId, budget: 50, isBackfill: false })),
      })
      .targets.map(({ budget }) => budget)
  assert.deepEqual(budgetsOf('org_1', 'we_1', 'we_busy', 'we_2'), [3, 1, 1])
  assert.deepEqual(budgetsOf('org_busy', 'we_1'), [2])
  assert.deepEqual(budgetsOf('constructor', 'toString', 'valueOf'), [3, 2])
  const delivery = { id: 'dlv_1', organizationId: 'acme we', endpointId: '1', body: '' }
  claim.add({ deliveries: [delivery as never], unread: [], cutEndpoint: null })
  assert.deepEqual(budgetsOf('acme', 'we 1'), [3], 'no delivery of another organization counts')
})
