import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { resolveLoopOptions } from '../../lib/delivery/loop-options.ts'
import { createNotifier } from '../../lib/delivery/notifier.ts'
import { defineService } from '../../lib/service.ts'
import type { FailedDelivery } from '../../lib/webhooks/claims.ts'
import type { Notice } from '../../lib/webhooks/notices.ts'

const failedOf = (endpointId: string, number: number): FailedDelivery => ({
  organizationId: 'org_1',
  endpointId,
  deliveryId: `dlv_${number}`,
  eventId: `evt_${number}`,
  type: 'client.created',
  reason: 'http_503',
})

test('failed deliveries of an endpoint cause one notice after 5 seconds without another, or after a minute', (t) => {
  let now = 0
  t.mock.timers.enable({ apis: ['setTimeout'] })
  mock.method(performance, 'now', () => now)
  t.after(() => mock.restoreAll())
  const counts: [string, string, number][] = []
  const onNotice = (notice: Notice): void => {
    if (notice.kind === 'delivery_failed') counts.push([notice.endpointId, notice.deliveryId, notice.count])
  }
  const notifier = createNotifier(resolveLoopOptions({ onNotice, logger: false }, defineService()))
  const pass = (ms: number): void => {
    now += ms
    t.mock.timers.tick(ms)
  }
  notifier.notifyFailed([failedOf('we_1', 1), failedOf('we_1', 2), failedOf('we_2', 3)])
  pass(4000)
  notifier.notifyFailed([failedOf('we_1', 4)])
  pass(1000)
  assert.deepEqual(counts, [['we_2', 'dlv_3', 1]])
  pass(4000)
  assert.deepEqual(counts.slice(1), [['we_1', 'dlv_1', 3]])
  for (let second = 0; second < 70; second++) {
    notifier.notifyFailed([failedOf('we_1', 100 + second)])
    pass(1000)
  }
  assert.deepEqual(counts.slice(2), [['we_1', 'dlv_100', 60]])
  notifier.flush()
  assert.deepEqual(counts.slice(3), [['we_1', 'dlv_160', 10]])
})
