import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { judgeAnswer, RETRY_DELAYS_MS, type Verdict } from '../../lib/delivery/verdict.ts'
import type { WebhookAnswer } from '../../lib/webhooks/webhook-sender.ts'

const HOUR_MS = 60 * 60 * 1000
const RETRY: Verdict = {
  outcome: 'retry',
  reason: null,
  isGone: false,
  delayMs: 30_000,
  backOffMs: null,
  load: 'same',
}

function judge(answer: Partial<WebhookAnswer>, attempt = 1, retryDelaysMs?: readonly number[]): Verdict {
  return judgeAnswer(
    { status: null, error: null, bodyExcerpt: '', durationMs: 1, ...answer },
    attempt,
    retryDelaysMs,
  )
}

/** The delays after the first attempt in milliseconds. */
function waitAfter(status: number, retryAfterMs?: number | null, attempt = 1): number {
  return judge({ status, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }, attempt).delayMs
}

describe('judgeAnswer()', () => {
  test('any 2xx is a success for every attempt', () => {
    for (let status = 200; status <= 299; status++) {
      for (const attempt of [1, 5]) {
        const delivered = {
          outcome: 'delivered',
          reason: null,
          isGone: false,
          delayMs: 0,
          backOffMs: null,
          load: 'more',
        }
        assert.deepEqual(judge({ status }, attempt), delivered, String(status))
      }
    }
  })

  test('any other status is a failed attempt, including redirects', () => {
    for (let status = 100; status <= 599; status++) {
      if ((status >= 200 && status <= 299) || status === 410) continue
      const backOffMs = status === 429 || status === 503 ? 0 : null
      assert.deepEqual(judge({ status }), { ...RETRY, backOffMs }, String(status))
    }
  })

  test('no response is a failed attempt for any reason', () => {
    for (const error of ['connection_refused', 'connection_reset', 'dns_failed', 'destination_not_allowed']) {
      assert.deepEqual(judge({ error }), RETRY, error)
    }
    assert.deepEqual(judge({ error: 'timeout' }), { ...RETRY, load: 'less' })
  })

  test('waits 30, 60, 120 and 240 seconds, and the fifth failure is the last', () => {
    assert.deepEqual(RETRY_DELAYS_MS, [30_000, 60_000, 120_000, 240_000])
    const verdicts = [1, 2, 3, 4, 5].map((attempt) => judge({ status: 500 }, attempt))
    assert.deepEqual(
      verdicts.map(({ outcome, delayMs }) => [outcome, delayMs]),
      [
        ['retry', 30_000],
        ['retry', 60_000],
        ['retry', 120_000],
        ['retry', 240_000],
        ['failed', 0],
      ],
    )
  })

  test('uses the delays and number of attempts from the options', () => {
    assert.deepEqual(judge({ status: 500 }, 2, [1, 2]), { ...RETRY, delayMs: 2 })
    assert.equal(judge({ status: 500 }, 3, [1, 2]).outcome, 'failed')
    assert.equal(judge({ status: 500 }, 1, []).outcome, 'failed')
  })

  test('says why a delivery failed: the status, or why there was no response', () => {
    assert.equal(judge({ status: 500 }, 5).reason, 'http_500')
    assert.equal(judge({ status: 302 }, 5).reason, 'http_302')
    assert.equal(judge({ error: 'timeout' }, 5).reason, 'timeout')
  })

  test('repeats an attempt interrupted by the loop right away, even the last one', () => {
    assert.deepEqual(judge({ error: 'interrupted' }, 5), { ...RETRY, delayMs: 0 })
    assert.deepEqual(judge({ error: 'interrupted' }, 1), { ...RETRY, delayMs: 0 })
  })

  test('410 ends a delivery at the first attempt and reports the endpoint as gone', () => {
    const gone = {
      outcome: 'failed',
      reason: 'gone',
      isGone: true,
      delayMs: 0,
      backOffMs: null,
      load: 'same',
    }
    assert.deepEqual(judge({ status: 410 }), gone)
    assert.deepEqual(judge({ status: 410, retryAfterMs: 60_000 }), gone)
  })

  test('Retry-After extends the wait after any failure up to an hour, and makes it a rejection', () => {
    for (const status of [301, 400, 413, 429, 500, 502, 503]) {
      assert.equal(judge({ status, retryAfterMs: 90_000 }).backOffMs, 90_000)
      assert.equal(judge({ status, retryAfterMs: 0 }).backOffMs, 0)
      assert.equal(judge({ status, retryAfterMs: HOUR_MS + 1 }).backOffMs, HOUR_MS)
      assert.equal(waitAfter(status, 90_000), 90_000)
      assert.equal(waitAfter(status, HOUR_MS), HOUR_MS)
      assert.equal(waitAfter(status, HOUR_MS + 1), HOUR_MS)
      assert.equal(waitAfter(status, Number.MAX_SAFE_INTEGER), HOUR_MS)
    }
  })

  test('Retry-After never shortens a wait', () => {
    for (const retryAfterMs of [0, 1000, 29_999, 30_000, -1, null, undefined]) {
      assert.equal(waitAfter(429, retryAfterMs), 30_000, String(retryAfterMs))
      assert.equal(waitAfter(503, retryAfterMs, 4), 240_000, String(retryAfterMs))
    }
  })

  test('Retry-After has no effect on a success or on the last attempt', () => {
    assert.deepEqual(judge({ status: 202, retryAfterMs: 90_000 }), judge({ status: 200 }))
    assert.equal(judge({ status: 503, retryAfterMs: 90_000 }, 5).outcome, 'failed')
  })

  test('makes fewer attempts at once after a timeout, but not after other failures', () => {
    assert.equal(judge({ error: 'timeout' }, 5).load, 'less')
    for (const status of [410, 429, 500, 503]) assert.equal(judge({ status }).load, 'same')
    assert.equal(judge({ error: 'connection_refused' }).load, 'same')
  })

  test('repeats an attempt ended by the process without a backoff', () => {
    assert.deepEqual(judge({ error: 'interrupted' }, 4), { ...RETRY, delayMs: 0 })
  })
})
