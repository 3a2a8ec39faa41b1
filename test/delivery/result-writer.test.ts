import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createResultWriter, type ResultWriter } from '../../lib/delivery/result-writer.ts'
import type { AttemptResult, ClaimRef, EndpointHealth, ResultReport } from '../../lib/webhooks/claims.ts'
import type { DeliveryStore } from '../../lib/webhooks/deliveries.ts'

// The result writer with a fake store that succeeds or fails as the test needs.

const LIMIT = { failures: 50, failingMs: 1000 }
const RETRY_MS = 500
const GATHER_MS = 50
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

type Result = Parameters<ResultWriter['write']>[0]

function resultOf(number: number): Result {
  return {
    organizationId: 'org_1',
    deliveryId: `dlv_${number}`,
    token: 'token',
    outcome: 'delivered',
    reason: null,
    isGone: false,
    delayMs: 0,
    backOffMs: null,
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

/** Lets the time pass for which the first result waits for others. */
async function gather(): Promise<void> {
  mock.timers.tick(GATHER_MS)
  await settleDown()
}

/** Runs everything that doesn't have to wait. */
async function settleDown(): Promise<void> {
  for (let turns = 0; turns < 20; turns++) await turn()
}

describe('createResultWriter()', () => {
  let batches: (readonly AttemptResult[])[] = []
  let released: (readonly ClaimRef[])[] = []
  let errors: unknown[] = []
  let reports: ResultReport[] = []
  let told: string[] = []
  /** What the store does before it returns. */
  let beforeWrite: (results: readonly AttemptResult[]) => Promise<void> | void = () => {}
  let beforeRelease: () => Promise<void> | void = () => {}
  let store: Pick<DeliveryStore, 'writeResults' | 'release'>
  let writer: ResultWriter

  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] })
    batches = []
    released = []
    errors = []
    reports = []
    told = []
    beforeWrite = () => {}
    beforeRelease = () => {}
    store = {
      async writeResults(results, limit) {
        assert.equal(limit, LIMIT)
        await beforeWrite(results)
        batches.push(results)
        return { lost: [], endpoints: results.length === 3 ? [FAILING] : [], failed: [] }
      },
      async release(claims) {
        await beforeRelease()
        released.push(claims)
      },
    }
    writer = createResultWriter(store, LIMIT, {
      onWritten: (results, report) => {
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

  function write(...numbers: readonly number[]): void {
    const now = performance.now()
    for (const number of numbers) writer.write(resultOf(number), { startedAt: now, endedAt: now })
  }

  const numbersOf = (batches: readonly (readonly ClaimRef[])[]) =>
    batches.map((batch) => batch.map(({ deliveryId }) => Number(deliveryId.replace('dlv_', ''))))

  const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

  test('writes simultaneous results with one statement', async () => {
    write(1, 2)
    writer.release(claimOf(3))
    writer.release(claimOf(4))
    await writer.settle(1000)
    assert.deepEqual([numbersOf(batches), numbersOf(released)], [[[1, 2]], [[3, 4]]])
    assert.deepEqual([writer.pending, errors], [0, []])
  })

  test('writes the results of 50 ms with one statement, and right away at the end of a run', async () => {
    write(1)
    mock.timers.tick(GATHER_MS - 1)
    await settleDown()
    assert.deepEqual([batches.length, writer.pending], [0, 1])
    write(2)
    mock.timers.tick(1)
    await settleDown()
    write(3)
    await writer.settle(0)
    await settleDown()
    assert.deepEqual(numbersOf(batches), [[1, 2], [3]])
  })

  test('writes one statement at a time with all results since the previous one, up to 200', async () => {
    let answer = (): void => {}
    beforeWrite = () =>
      new Promise((resolve) => {
        answer = resolve
      })
    write(0)
    await gather()
    write(...upTo(350))
    assert.equal(writer.pending, 351)
    for (const written of [1, 201, 351]) {
      answer()
      await settleDown()
      assert.equal(batches.flat().length, written)
    }
    assert.deepEqual(
      batches.map(({ length }) => length),
      [1, 200, 150],
    )
    assert.equal(writer.pending, 0)
  })

  test('computes the age of an attempt when writing it, not when it ended', async () => {
    let now = 5000
    mock.method(performance, 'now', () => now)
    beforeWrite = () => {
      beforeWrite = () => {}
      throw storeUnavailable('Not now')
    }
    writer.write(resultOf(1), { startedAt: 1000, endedAt: 3000 })
    await gather()
    now = 9000
    mock.timers.tick(RETRY_MS)
    await settleDown()
    const [[result] = []] = batches
    assert.deepEqual([result?.startedAgoMs, result?.endedAgoMs], [8000, 6000])
  })

  test('passes on what the results caused', async () => {
    write(1, 2)
    await writer.settle(1000)
    write(3, 4, 5)
    await writer.settle(1000)
    assert.deepEqual(
      reports.map(({ endpoints }) => endpoints),
      [[], [FAILING]],
    )
  })

  test('keeps unwritten results and tries again after half a second, in the order in which they ended', async () => {
    const unavailable = storeUnavailable('Not now')
    beforeWrite = () => {
      throw unavailable
    }
    write(1, 2)
    await gather()
    write(3)
    mock.timers.tick(RETRY_MS - 1)
    await settleDown()
    assert.deepEqual([errors, writer.pending], [[unavailable], 3])
    beforeWrite = () => {}
    mock.timers.tick(1)
    await settleDown()
    assert.deepEqual([numbersOf(batches), writer.pending], [[[1, 2, 3]], 0])
    assert.deepEqual([errors, told], [[unavailable], ['dlv_1', 'dlv_2', 'dlv_3']])
  })

  test("keeps claims that couldn't be released, and writes results in the meantime", async () => {
    beforeRelease = () => {
      throw storeUnavailable('Not now')
    }
    writer.release(claimOf(1))
    write(2)
    await gather()
    assert.deepEqual([numbersOf(batches), writer.pending], [[[2]], 1])
    beforeRelease = () => {}
    mock.timers.tick(RETRY_MS)
    await settleDown()
    assert.deepEqual([numbersOf(released), writer.pending], [[[1]], 0])
  })

  test("a result that the store rejects doesn't block the others and is dropped", async () => {
    const poison = new TypeError('value "1.5" is out of range')
    beforeWrite = (results) => {
      if (results.some(({ deliveryId }) => deliveryId === 'dlv_7')) throw poison
    }
    write(...upTo(20))
    await settleDown()
    for (let retries = 0; retries < 3; retries++) {
      mock.timers.tick(RETRY_MS)
      await settleDown()
    }
    const written = numbersOf(batches)
      .flat()
      .toSorted((one, other) => one - other)
    assert.deepEqual(
      written,
      upTo(20).filter((number) => number !== 7),
    )
    assert.equal(writer.pending, 0)
    assert.ok(errors.length > 0 && errors.every((error) => error === poison))
    // The batches are large again.
    beforeWrite = () => {}
    write(...upTo(1000))
    await writer.settle(1000)
    assert.equal(batches.at(-2)?.length, 200)
  })

  test('a store that fails all the time is only called twice a second', async () => {
    let calls = 0
    beforeWrite = () => {
      calls++
      throw new TypeError('a bug')
    }
    write(...upTo(8))
    await gather()
    // Batches of 8, 4, 2 and 1.
    assert.equal(calls, 4)
    await settleDown()
    assert.equal(calls, 4)
    mock.timers.tick(RETRY_MS)
    await settleDown()
    assert.equal(calls, 5)
  })

  test('settle() ends when the time is up and leaves unwritten results for later', async () => {
    beforeWrite = () => {
      throw storeUnavailable('Not now')
    }
    write(1)
    let isSettled = false
    const settled = writer.settle(2000).then(() => {
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
    beforeWrite = () => {}
    write(2)
    await writer.settle(1000)
    assert.deepEqual([numbersOf(batches), writer.pending], [[[1, 2]], 0])
  })

  test('settle() resolves right away if there is nothing to write', async () => {
    await writer.settle(2000)
    assert.equal(writer.pending, 0)
  })
})
