import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { type TestContext, test } from 'node:test'
import type { LoopStep } from '../../lib/base/tracing.ts'
import { createLoopSteps } from '../../lib/delivery/loop-steps.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import type { AttemptResult, ClaimRequest } from '../../lib/webhooks/claims.ts'

const ORGANIZATION = 'org_secret'
const CLAIM: ClaimRequest = {
  token: 'token',
  isRepeat: false,
  limit: 10,
  maxBytes: 1_000_000,
  capacity: { endpoint: 10, organization: 10, endpoints: {}, organizations: {} },
  scanLimit: 10,
  cursor: null,
  leaseMs: 10_000,
  maxAttempts: 5,
}
const NEVER = { failures: 1000, failingMs: 1_000_000 }

/** A store with two due deliveries, and the steps published until the end of the test. */
async function prepare(t: TestContext) {
  const store = createMemoryStore()
  const settings = createDeveloperSettings(store, { allowPlaintextSecrets: true, allowPrivateNetworks: true })
  await settings.endpoints.register(ORGANIZATION, { url: 'https://hooks.example/' })
  const ticket = { ticketId: 'tic_1', subject: 'Help', status: 'open' }
  for (let event = 0; event < 2; event++) {
    await createPlatform(store).publish(ORGANIZATION, 'support.ticket_created', ticket)
  }
  const published: LoopStep[] = []
  const listen = (step: unknown): void => void published.push(step as LoopStep)
  subscribe('business-api:loop', listen)
  t.after(() => unsubscribe('business-api:loop', listen))
  return { store, published }
}

test('each step of a loop is published, without lost results or anything about the organization', async (t) => {
  const { store, published } = await prepare(t)
  const steps = createLoopSteps(store.deliveries)
  const { deliveries } = await steps.claim(CLAIM)
  const results = deliveries.map(
    ({ id }, index): AttemptResult => ({
      organizationId: ORGANIZATION,
      deliveryId: id,
      token: index === 0 ? CLAIM.token : 'another token',
      outcome: 'delivered',
      reason: null,
      isGone: false,
      delayMs: 0,
      backOffMs: null,
      startedAgoMs: 20,
      endedAgoMs: 10,
      durationMs: 10,
      dnsMs: null,
      connectMs: null,
      tlsMs: null,
      firstByteMs: null,
      status: 204,
      error: null,
      bodyExcerpt: 'secret answer',
    }),
  )
  await steps.writeResults(results, NEVER)
  await steps.continuePurge({ eventsAfterMs: 1000, limit: 10, share: 0.25 })

  assert.ok(published.every(({ durationMs }) => durationMs >= 0))
  assert.deepEqual(
    published.map((step) => ({ ...step, durationMs: 0 })),
    [
      { kind: 'claim', durationMs: 0, hasFailed: false, deliveries: 2 },
      {
        kind: 'results',
        durationMs: 0,
        hasFailed: false,
        results: [{ outcome: 'delivered', status: 204, durationMs: 10 }],
        lost: 1,
      },
      { kind: 'purge', durationMs: 0, hasFailed: false, lagMs: 0 },
    ],
  )
})

test('a failed step is published as failed, and the loop gets the error', async (t) => {
  const { store, published } = await prepare(t)
  const fail = (): Promise<never> => Promise.reject(new Error('a store that fails'))
  const broken = { ...store.deliveries, claim: fail, writeResults: fail, continuePurge: fail }
  const steps = createLoopSteps(broken)
  await assert.rejects(steps.claim(CLAIM), /a store that fails/)
  await assert.rejects(steps.claim(CLAIM), /a store that fails/)
  await assert.rejects(steps.writeResults([], NEVER), /a store that fails/)
  await assert.rejects(steps.continuePurge({ eventsAfterMs: 1, limit: 1, share: 1 }), /a store that fails/)
  assert.deepEqual(
    published.map(({ kind, hasFailed }) => [kind, hasFailed]),
    [
      ['claim', true],
      ['claim', true],
      ['results', true],
      ['purge', true],
    ],
  )
  assert.deepEqual(steps.claims, { succeededAt: null, failures: 2 })
})

test('the last successful claim is recorded even without a subscriber', async () => {
  const steps = createLoopSteps(createMemoryStore().deliveries)
  assert.equal(steps.claims.succeededAt, null)
  const before = performance.now()
  await steps.claim(CLAIM)
  assert.ok((steps.claims.succeededAt ?? 0) >= before)
})
