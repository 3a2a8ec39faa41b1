import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { createDeliveryLoop } from '../../lib/delivery/delivery-loop.ts'
import type { DeliveryLoopOptions } from '../../lib/delivery/loop-options.ts'
import { createMemoryStore } from '../../lib/memory.ts'
import { AN_HOUR_MS, createTestSender, untyped } from './_loop.ts'

// Invalid options.

describe('createDeliveryLoop() rejects at construction', () => {
  const refused: readonly [string, unknown, RegExp][] = [
    ['a concurrency of 0', { concurrency: 0 }, /'concurrency'.*0/],
    ['a concurrency that is no whole number', { concurrency: 1.5 }, /'concurrency'.*1\.5/],
    ['a leaseMs below 100', { leaseMs: 99 }, /'leaseMs'.*99/],
    ['a leaseMs beyond the longest timer', { leaseMs: 2 ** 31 }, /'leaseMs'/],
    ['a pollIntervalMs of 0', { pollIntervalMs: 0 }, /'pollIntervalMs'.*0/],
    ['a pollIntervalMs that is text', { pollIntervalMs: '100' }, /'pollIntervalMs'.*100/],
    ['a delay below 0', { retryDelaysMs: [1000, -1] }, /'retryDelaysMs'.*-1/],
    ['a delay that is missing', { retryDelaysMs: [1000, undefined] }, /'retryDelaysMs'/],
    ['a delay that is not a number', { retryDelaysMs: [Number.NaN] }, /'retryDelaysMs'.*NaN/],
    ['delays that are no list', { retryDelaysMs: 1000 }, /'retryDelaysMs'/],
    ['a retentionMs of 0', { retentionMs: 0 }, /'retentionMs'.*0/],
    ['a retentionMs of true', { retentionMs: true }, /'retentionMs'.*true/],
    [
      'a failure limit of no failures',
      { failureLimit: { failures: 0, failingMs: 1 } },
      /'failureLimit\.failures'/,
    ],
    ['half a failure limit', { failureLimit: { failures: 5 } }, /'failureLimit\.failingMs'/],
    ['a failure limit that is none', { failureLimit: { failingMs: 5 } }, /'failureLimit\.failures'/],
    ['a markOverdue that is text', { markOverdue: 'yes' }, /'markOverdue'.*yes/],
    ['a logger without a method', { logger: { warn() {} } }, /'logger'/],
    ['a logger of true', { logger: true }, /'logger'/],
    ['an expiryNoticeMs of 0', { expiryNoticeMs: 0 }, /'expiryNoticeMs'.*0/],
    ['an expiryNoticeMs of null', { expiryNoticeMs: null }, /'expiryNoticeMs'.*null/],
    [
      'signing secrets at 0',
      { expiryNoticeMs: { signingSecrets: 0 } },
      /'expiryNoticeMs\.signingSecrets'.*0/,
    ],
    ['API keys at no time', { expiryNoticeMs: { apiKeys: true } }, /'expiryNoticeMs\.apiKeys'.*true/],
    ['an onNotice that is no function', { onNotice: {} }, /'onNotice'/],
    ['an onError that is no function', { onError: 'log' }, /'onError'/],
    ['a key that is none', { secretKeys: ['short'] }, /'secretKeys\[0\]'/],
    ['keys that are no list', { secretKeys: 'key' }, /'secretKeys'/],
  ]
  for (const [what, options, message] of refused) {
    test(what, () => {
      const create = () => createDeliveryLoop(createMemoryStore(), createTestSender(), untyped(options))
      assert.throws(create, (error) => {
        assert.ok(error instanceof TypeError || error instanceof RangeError, inspect(error))
        assert.match(error.message, /^(Cannot use option|Option) /)
        assert.match(error.message, message)
        return true
      })
    })
  }

  test('nothing that is allowed', () => {
    const allowed: DeliveryLoopOptions[] = [
      {},
      { concurrency: 1, leaseMs: 100, pollIntervalMs: 1, retryDelaysMs: [] },
      { expiryNoticeMs: false, onNotice: () => {} },
      { expiryNoticeMs: { signingSecrets: false, apiKeys: 1 } },
      { expiryNoticeMs: {} },
      { retentionMs: 90 * 24 * AN_HOUR_MS, failureLimit: { failures: 1, failingMs: 30 * 24 * AN_HOUR_MS } },
      { retentionMs: false, logger: false, onError: () => {}, allowPlaintextSecrets: true, secretKeys: [] },
    ]
    for (const options of allowed) {
      assert.doesNotThrow(() => createDeliveryLoop(createMemoryStore(), createTestSender(), options))
    }
  })
})
