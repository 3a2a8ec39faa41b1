import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type {
  AttemptResult,
  ClaimRef,
  DeliveryStore,
  EndpointHealth,
  RecordReport,
} from '../../lib/deliveries.ts'
import { storeUnavailable } from '../../lib/errors.ts'
import { createRecorder, type Recorder } from '../../lib/webhooks/recorder.ts'

// The recorder on a store made by hand, whose calls the test lets succeed and fail.

const LIMIT = { failures: 50, failingMs: 1000 }
const RETRY_MS = 500
const FAILING: EndpointHealth = {
  organizationId: 'org_1',
  endpointId: 'we_1',
  state: 'enabled',
  failures: 1,
  failingSince: '2026-03-14T09:26:53.589Z',
  disabledReason: null,
  isNewlyFailing: true,
  isNewlyDisabled: false,
}

type Result = Parameters<Recorder['record']>[0]

function resultOf(number: number): Result {
  return {
    organizationId: 'org_1',
    deliveryId: `dlv_${number}`,
    token: 'token',
    outcome: 'delivered',
    reason: null,
    isGone: false,
    delayMs: 0,
    durationMs: 5,
    dnsMs: null,
    connectMs: null,
    tlsMs: null,
    firstByteMs: null,
    status: 200,
    error: null,
    bodyExcerpt: '',
  }
}

function claimOf(number: number): ClaimRef {
  return { organizationId: 'org_1', deliveryId: `dlv_${number}`, token: 'token' }
}

/** Lets everything that is not waiting for time happen. */
async function settleDown(): Promise<void> {
  for (let turns = 0; turns < 20; turns++) await turn()
}

describe('createRecorder()', () => {
  let recorded: (readonly AttemptResult[])[] = []
  let released: (readonly ClaimRef[])[] = []
  let errors: unknown[] = []
  let reports: RecordReport[] = []
  let told: string[] = []
  /** What the store does before it answers. */
  let beforeRecord: (results: readonly AttemptResult[]) => Promise<void> | void = () => {}
  let beforeRelease: () => Promise<void> | void = () => {}
  let recorder: Recorder

  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] })
    recorded = []
    released = []
    errors = []
    reports = []
    told = []
    beforeRecord = () => {}
    beforeRelease = () => {}
    const store: Pick<DeliveryStore, 'record' | 'release'> = {
      async record(results, limit) {
        assert.equal(limit, LIMIT)
        await beforeRecord(results)
        recorded.push(results)
        return { endpoints: results.length === 3 ? [FAILING] : [], deadLetters: [] }
      },
      async release(claims) {
        await beforeRelease()
        released.push(claims)
      },
    }
    recorder = createRecorder(store, LIMIT, {
      onRecorded: (results, report) => {
        told.push(...results.map(({ deliveryId }) => deliveryId))
        reports.push(report)
      },
      onError: (error) => errors.push(error),
    })
  })
  afterEach(() => {
    mock.timers.reset()
    mock.restoreAll()
  })

  function record(...numbers: readonly number[]): void {
    const now = performance.now()
    for (const number of numbers) recorder.record(resultOf(number), { startedAt: now, endedAt: now })
  }

  const numbersOf = (batches: readonly (readonly ClaimRef[])[]) =>
    batches.map((batch) => batch.map(({ deliveryId }) => Number(deliveryId.replace('dlv_', ''))))

  const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

  test('writes what ends in the same moment with one statement', async () => {
    record(1, 2)
    recorder.release(claimOf(3))
    recorder.release(claimOf(4))
    await recorder.settle(1000)
    assert.deepEqual([numbersOf(recorded), numbersOf(released)], [[[1, 2]], [[3, 4]]])
    assert.deepEqual([recorder.pending, errors], [0, []])
  })

  test('writes one statement at a time, with all that has ended meanwhile, and 200 at most', async () => {
    let answer = (): void => {}
    beforeRecord = () =>
      new Promise((resolve) => {
        answer = resolve
      })
    record(0)
    await settleDown()
    record(...upTo(350))
    assert.equal(recorder.pending, 351)
    for (const written of [1, 201, 351]) {
      answer()
      await settleDown()
      assert.equal(recorded.flat().length, written)
    }
    assert.deepEqual(
      recorded.map(({ length }) => length),
      [1, 200, 150],
    )
    assert.equal(recorder.pending, 0)
  })

  test('says how long ago an attempt began and ended when it is written, not when it ended', async () => {
    let now = 5000
    mock.method(performance, 'now', () => now)
    beforeRecord = () => {
      beforeRecord = () => {}
      throw storeUnavailable('Not now')
    }
    recorder.record(resultOf(1), { startedAt: 1000, endedAt: 3000 })
    await settleDown()
    now = 9000
    mock.timers.tick(RETRY_MS)
    await settleDown()
    const [[result] = []] = recorded
    assert.deepEqual([result?.startedAgoMs, result?.endedAgoMs], [8000, 6000])
  })

  test('passes on what the results have brought about', async () => {
    record(1, 2)
    await recorder.settle(1000)
    record(3, 4, 5)
    await recorder.settle(1000)
    assert.deepEqual(
      reports.map(({ endpoints }) => endpoints),
      [[], [FAILING]],
    )
  })

  test('keeps what could not be written and tries again after half a second, in the order in which it ended', async () => {
    const unavailable = storeUnavailable('Not now')
    beforeRecord = () => {
      throw unavailable
    }
    record(1, 2)
    await settleDown()
    record(3)
    mock.timers.tick(RETRY_MS - 1)
    await settleDown()
    assert.deepEqual([errors, recorder.pending], [[unavailable], 3])
    beforeRecord = () => {}
    mock.timers.tick(1)
    await settleDown()
    assert.deepEqual([numbersOf(recorded), recorder.pending], [[[1, 2, 3]], 0])
    assert.deepEqual([errors, told], [[unavailable], ['dlv_1', 'dlv_2', 'dlv_3']])
  })

  test('keeps what could not be given back, and writes results meanwhile', async () => {
    beforeRelease = () => {
      throw storeUnavailable('Not now')
    }
    recorder.release(claimOf(1))
    record(2)
    await settleDown()
    assert.deepEqual([numbersOf(recorded), recorder.pending], [[[2]], 1])
    beforeRelease = () => {}
    mock.timers.tick(RETRY_MS)
    await settleDown()
    assert.deepEqual([numbersOf(released), recorder.pending], [[[1]], 0])
  })

  test('one result that the store cannot take does not hold up the others, and is given up', async () => {
    const poison = new TypeError('value "1.5" is out of range')
    beforeRecord = (results) => {
      if (results.some(({ deliveryId }) => deliveryId === 'dlv_7')) throw poison
    }
    record(...upTo(20))
    await settleDown()
    for (let retries = 0; retries < 3; retries++) {
      mock.timers.tick(RETRY_MS)
      await settleDown()
    }
    const written = numbersOf(recorded)
      .flat()
      .toSorted((one, other) => one - other)
    assert.deepEqual(
      written,
      upTo(20).filter((number) => number !== 7),
    )
    assert.equal(recorder.pending, 0)
    assert.ok(errors.length > 0 && errors.every((error) => error === poison))
    // And the batches are large again.
    beforeRecord = () => {}
    record(...upTo(1000))
    await recorder.settle(1000)
    assert.equal(recorded.at(-2)?.length, 200)
  })

  test('a store that takes nothing at all is asked twice a second, not more', async () => {
    let calls = 0
    beforeRecord = () => {
      calls++
      throw new TypeError('a bug')
    }
    record(...upTo(8))
    await settleDown()
    // 8, 4, 2 and 1 of them.
    assert.equal(calls, 4)
    await settleDown()
    assert.equal(calls, 4)
    mock.timers.tick(RETRY_MS)
    await settleDown()
    assert.equal(calls, 5)
  })

  test('settle() gives up when the time is over and leaves what is not written for later', async () => {
    beforeRecord = () => {
      throw storeUnavailable('Not now')
    }
    record(1)
    let isSettled = false
    const settled = recorder.settle(2000).then(() => {
      isSettled = true
    })
    await settleDown()
    mock.timers.tick(1999)
    await settleDown()
    assert.equal(isSettled, false)
    mock.timers.tick(1)
    await settled
    mock.timers.tick(RETRY_MS)
    await settleDown()
    const errorsSoFar = errors.length
    mock.timers.tick(RETRY_MS)
    await settleDown()
    assert.equal(errors.length, errorsSoFar)
    beforeRecord = () => {}
    record(2)
    await recorder.settle(1000)
    assert.deepEqual([numbersOf(recorded), recorder.pending], [[[1, 2]], 0])
  })

  test('settle() resolves at once when there is nothing to write', async () => {
    await recorder.settle(2000)
    assert.equal(recorder.pending, 0)
  })
})
