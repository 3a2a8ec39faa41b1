import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { createBusinessApi } from '../../lib/index.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { createMetrics } from '../../lib/metrics.ts'
import { createDeliveryLoop, createWebhookSender } from '../../lib/webhooks.ts'
import { ROOT } from '../_program.ts'

// The judgement of Prometheus' own tool. Debian has the tool in the package `prometheus`.

const skip =
  spawnSync('promtool', ['--version']).error === undefined
    ? false
    : 'promtool is not there: install the package prometheus'

function promtool(args: readonly string[], input = ''): void {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: ROOT, input, encoding: 'utf8' })
  assert.equal(status, 0, stdout + stderr)
}

test('promtool takes the alert rules of examples/metrics', { skip }, () => {
  promtool(['check', 'rules', 'examples/metrics/alerts.yml'])
})

test('the alert rules tell of a loop that does not claim, and since when', { skip }, () => {
  promtool(['test', 'rules', 'test/examples/alerts.test.yml'])
})

test('promtool takes the text of metrics', { skip }, async () => {
  const store = createMemoryStore()
  const loop = createDeliveryLoop(store, createWebhookSender(), {
    allowPlaintextSecrets: true,
    logger: false,
  })
  const metrics = createMetrics(store, { loop })
  const api = createBusinessApi(store, { logger: false })
  await api(new Request('http://x/openapi.json'))
  await api(new Request('http://x/api/v1/clients'))
  await loop.runOnce()
  promtool(['check', 'metrics'], await metrics.text())
  metrics.close()
})
