import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { storeUnavailable } from '../../lib/base/errors.ts'
import { createMaintenance, type MaintenanceTask, repeatTask } from '../../lib/delivery/maintenance.ts'
import { createPurge } from '../../lib/delivery/maintenance-tasks.ts'
import type { DeliveryStore, SharedPurgeReport, SharedPurgeRequest } from '../../lib/webhooks/deliveries.ts'
import type { Notice } from '../../lib/webhooks/notices.ts'
import { addEndpoint, createTestSender, describeOnMemory, NO_POLL, publish, withDeliveries } from './_loop.ts'

// Tasks of a loop other than deliveries, how they are repeated, and the purge.

describe('repeatTask() of a purge', () => {
  const DONE = { events: 0, days: 0, idempotencyKeys: 0, isDone: true, waitMs: 0, lagMs: 0, retained: [] }
  const MORE = { ...DONE, isDone: false, waitMs: 75 }
  const FAILED = undefined
  const HOUR_MS = 3_600_000

  /**
   * Repeats a purge once for each report.
   *
   * @returns what it requested, how long it waited, and its notices and errors
   */
  async function repeatPurge(reports: readonly (SharedPurgeReport | undefined)[], everyMs = 0) {
    const requests: SharedPurgeRequest[] = []
    const waits: number[] = []
    const notices: Notice[] = []
    const errors: unknown[] = []
    const store = {
      async continuePurge(request: SharedPurgeRequest) {
        const report = reports[requests.push(request) - 1]
        if (!report) throw storeUnavailable('Not now')
        return report
      },
    }
    const wakeUp = { wake() {}, wait: async (ms: number) => void waits.push(ms) }
    const task = createPurge(
      store,
      1234,
      (found) => notices.push(...found),
      () => waits.length * everyMs,
    )
    const isEnded = () => waits.length === reports.length
    await repeatTask(task, wakeUp, isEnded, (error) => errors.push(error))
    return { requests, waits, notices, errors }
  }

  test('purges one part at a time as soon as the store allows until nothing is left, and continues after a failure', async () => {
    const { requests, waits, errors } = await repeatPurge([MORE, FAILED, DONE, MORE])
    assert.deepEqual(
      requests.map(({ eventsAfterMs, share }) => [eventsAfterMs, share]),
      Array(4).fill([1234, 0.25]),
    )
    assert.deepEqual(waits, [75, 60_000, 60_000, 75])
    assert.equal(errors.length, 1)
  })

  test('makes parts smaller after a failure or if they take over a second, and then larger again', async () => {
    const slow = { ...MORE, waitMs: 3001 }
    const { requests } = await repeatPurge([FAILED, FAILED, MORE, slow, MORE])
    const limits = requests.map(({ limit }) => limit)
    assert.deepEqual(limits.slice(0, 5), [1000, 500, 250, 275, 137])
    const larger = await repeatPurge([FAILED, ...Array(20).fill(MORE)])
    assert.equal(larger.requests.at(-1)?.limit, 1000)
    const least = await repeatPurge(Array(20).fill(FAILED))
    assert.equal(least.requests.at(-1)?.limit, 10)
  })

  test('sends a notice when three parts in a row have failed, and not again until one succeeds', async () => {
    const failing = Array(5).fill(FAILED)
    const { notices } = await repeatPurge([FAILED, FAILED, DONE, ...failing, DONE, ...failing])
    const notice = {
      kind: 'retention_behind',
      reason: 'failing',
      retentionMs: 1234,
      lagMs: null,
      failures: 3,
    }
    assert.deepEqual(notices, [notice, notice])
  })

  test('only counts failures and adjusts parts by those of this process if other processes purge as well', async () => {
    const busy = { ...DONE, lagMs: null }
    const resting = { ...MORE, waitMs: 30_000, lagMs: null }
    const { requests, notices } = await repeatPurge([FAILED, busy, FAILED, resting, resting, FAILED, busy])
    assert.deepEqual(
      requests.map(({ limit }) => limit),
      [1000, 500, 500, 250, 250, 250, 125],
    )
    assert.deepEqual(
      notices.map((notice) => notice.kind),
      ['retention_behind'],
    )
  })

  test('sends a notice for each endpoint for which old events are kept, once as long as they are kept', async () => {
    const retaining = (...endpointIds: string[]) => ({
      ...DONE,
      retained: endpointIds.map((endpointId) => ({
        organizationId: 'org_1',
        endpointId,
        since: '2026-03-14T09:26:53.589Z',
      })),
    })
    const busy = { ...DONE, lagMs: null }
    const { notices } = await repeatPurge([
      retaining('we_1'),
      busy,
      retaining('we_1', 'we_2'),
      retaining('we_2'),
      DONE,
      retaining('we_3', 'we_2'),
    ])
    assert.deepEqual(
      notices,
      retaining('we_1', 'we_2', 'we_3', 'we_2').retained.map((delivery) => ({
        kind: 'events_kept',
        ...delivery,
      })),
    )
  })

  test('sends a notice after lagging by an hour for ten minutes, and not again until the purge has caught up', async () => {
    const behind = { ...MORE, lagMs: HOUR_MS + 1 }
    const resting = { ...MORE, lagMs: null }
    const minute = 60_000
    const short = await repeatPurge([...Array(10).fill(behind), DONE, ...Array(10).fill(behind)], minute)
    assert.deepEqual(short.notices, [])
    const { notices } = await repeatPurge([behind, resting, ...Array(20).fill(behind)], minute)
    assert.deepEqual(notices, [
      { kind: 'retention_behind', reason: 'slow', retentionMs: 1234, lagMs: HOUR_MS + 1, failures: 0 },
    ])
    const again = await repeatPurge([...Array(12).fill(behind), DONE, ...Array(12).fill(behind)], minute)
    assert.equal(again.notices.length, 2)
  })
})

describeOnMemory('A running loop', (under) => {
  test('purges old events unless retentionMs is false, and keeps delivering if a purge fails', async () => {
    const asked: number[] = []
    const store = withDeliveries(under.store, {
      continuePurge({ eventsAfterMs }) {
        asked.push(eventsAfterMs)
        throw new TypeError('a bug')
      },
    })
    await addEndpoint(under.store)
    const errors: unknown[] = []
    for (const retentionMs of [false, 1000] as const) {
      const sender = createTestSender()
      const options = { ...NO_POLL, retentionMs, onError: (error: unknown) => errors.push(error) }
      const loop = under.loop(sender, options, store)
      loop.start()
      await publish(under.store)
      await sender.sent(1)
      await loop.stop()
    }
    // Expired idempotency keys are erased in any case.
    const [never = 0, ...others] = asked
    assert.ok(never > 100 * 365 * 24 * 60 * 60 * 1000)
    assert.deepEqual(others, [1000])
    assert.equal(errors.length, 2)
  })
})

describe('createMaintenance()', () => {
  const ignore = (): void => {}

  test('runOnce() runs each until nothing is left, up to a maximum number of parts', async () => {
    const done = { few: 0, endless: 0, last: 0 }
    const maintenance = createMaintenance(
      [async () => ++done.few === 3, async () => ++done.endless < 0, async () => ++done.last === 1],
      ignore,
    )
    await maintenance.runOnce()
    assert.deepEqual(done, { few: 3, endless: 100, last: 1 })
  })

  test("runOnce() ends after the current part and throws a task's error", async () => {
    let parts = 0
    const ended = createMaintenance(
      [
        async () => {
          if (++parts === 2) ended.stop()
          return false
        },
      ],
      ignore,
    )
    await ended.runOnce()
    assert.equal(parts, 2)
    let done = 0
    const other: MaintenanceTask = async () => ++done > 0
    const failing = createMaintenance([() => Promise.reject(new TypeError('a bug')), other], ignore)
    await assert.rejects(failing.runOnce(), TypeError)
    assert.equal(done, 1, 'the other task had a turn')
  })

  test('runOnce() throws the first error and passes the others to onError', async () => {
    const errors: unknown[] = []
    const bugs = [new TypeError('first'), new RangeError('second'), new Error('third')]
    const failing = createMaintenance(
      bugs.map((bug) => () => Promise.reject(bug)),
      (error) => errors.push(error),
    )
    await assert.rejects(failing.runOnce(), bugs[0])
    assert.deepEqual(errors, bugs.slice(1))
  })

  test('keepRunning() continues with the other tasks until stopped if one fails or hangs', async () => {
    const errors: unknown[] = []
    let hasBeenDone = (): void => {}
    const done = new Promise<void>((resolve) => {
      hasBeenDone = resolve
    })
    const maintenance = createMaintenance(
      [
        () => Promise.reject(new TypeError('a bug')),
        async () => {
          hasBeenDone()
          return true
        },
      ],
      (error) => errors.push(error),
    )
    const kept = maintenance.keepRunning()
    await done
    maintenance.stop()
    await kept
    assert.equal(errors.length, 1)
  })
})

describeOnMemory('runOnce()', (under) => {
  test('purges until nothing old is left', async () => {
    let purges = 0
    const continuePurge: DeliveryStore['continuePurge'] = async () => ({
      events: 0,
      days: 0,
      idempotencyKeys: 0,
      isDone: ++purges === 4,
      waitMs: 1,
      lagMs: 0,
      retained: [],
    })
    await under.loop(createTestSender(), {}, withDeliveries(under.store, { continuePurge })).runOnce()
    assert.equal(purges, 4)
  })
})
