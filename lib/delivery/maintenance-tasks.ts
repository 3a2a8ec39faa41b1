import { randomBytes } from 'node:crypto'
import type { InvoiceStore } from '../resources/invoices.ts'
import { overdueRequest } from '../resources/overdue.ts'
import type { DeliveryStore, RetainedDelivery } from '../webhooks/deliveries.ts'
import type { ExpiryRequest, Notice, NoticeStore, RetentionBehindNotice } from '../webhooks/notices.ts'
import type { MaintenanceTask } from './maintenance.ts'

// --- Old events ---

/** Maximum number of rows of each kind in one part of the purge; fewer after a part that failed or took too long. */
const PURGE_LIMIT = 1000
const PURGE_LIMIT_MIN = 10
const PART_MAX_MS = 1000

/** Share of one connection's time that the parts of all processes take together. */
const PURGE_SHARE = 0.25

/** 1,000 years: longer than any host keeps events. */
const FOREVER_MS = 1000 * 365 * 24 * 60 * 60 * 1000

/** Consecutive failed parts before a notice is sent. */
const FAILURES_MAX = 3
/** Maximum lag without a notice, in ms, and the time allowed for catching up after all loops were stopped. */
const LAG_MAX_MS = 60 * 60 * 1000
const CATCH_UP_MS = 10 * 60 * 1000

/**
 * Creates the task that purges old events and expired idempotency keys, part by part, and sends a notice when the purge fails
 * again and again or does not keep up: once, until a part succeeds or the purge has caught up. Other notices name the endpoints for
 * whose deliveries old events are retained.
 *
 * @param retentionMs age of the events to purge in milliseconds; `false` keeps every event and purges expired idempotency
 *   keys only
 * @param now milliseconds of a monotonic clock
 */
export function createPurge(
  store: Pick<DeliveryStore, 'continuePurge'>,
  retentionMs: number | false,
  notify: (notices: readonly Notice[]) => void,
  now: () => number = () => performance.now(),
): MaintenanceTask {
  const eventsAfterMs = retentionMs === false ? FOREVER_MS : retentionMs
  let limit = PURGE_LIMIT
  let failures = 0
  let laggingSince: number | undefined
  let hasNotifiedOfLag = false
  let endpointsOfRetained = new Set<string>()

  function send(notice: Pick<RetentionBehindNotice, 'reason' | 'lagMs' | 'failures'>): void {
    notify([{ kind: 'retention_behind', retentionMs: eventsAfterMs, ...notice }])
  }

  function judgeLag(lagMs: number): void {
    if (lagMs <= LAG_MAX_MS) {
      laggingSince = undefined
      hasNotifiedOfLag = false
      return
    }
    laggingSince ??= now()
    if (hasNotifiedOfLag || now() - laggingSince < CATCH_UP_MS) return
    hasNotifiedOfLag = true
    send({ reason: 'slow', lagMs, failures })
  }

  function judgeRetained(retained: readonly RetainedDelivery[]): void {
    const added = retained.filter((delivery) => !endpointsOfRetained.has(endpointOf(delivery)))
    notify(added.map((delivery) => ({ kind: 'events_kept', ...delivery })))
    endpointsOfRetained = new Set(retained.map(endpointOf))
  }

  function judgePart(lagMs: number, waitMs: number): void {
    judgeLag(lagMs)
    failures = 0
    const partMs = waitMs * (PURGE_SHARE / (1 - PURGE_SHARE))
    limit = partMs > PART_MAX_MS ? halve(limit) : Math.min(PURGE_LIMIT, Math.ceil(limit * 1.1))
  }

  return async () => {
    const report = await store
      .continuePurge({ eventsAfterMs, limit, share: PURGE_SHARE })
      .catch((error: unknown) => {
        limit = halve(limit)
        if (++failures === FAILURES_MAX) send({ reason: 'failing', lagMs: null, failures })
        throw error
      })
    // Null: no part was purged, because another process purges or the purge is paused. Neither is a success or a failure.
    if (report.lagMs !== null) {
      judgePart(report.lagMs, report.waitMs)
      judgeRetained(report.retained)
    }
    return report.isDone || report.waitMs
  }
}

function endpointOf({ organizationId, endpointId }: RetainedDelivery): string {
  return JSON.stringify([organizationId, endpointId])
}

function halve(limit: number): number {
  return Math.max(PURGE_LIMIT_MIN, Math.floor(limit / 2))
}

// --- Expiries ---

/** Time between a notice and the expiry, in milliseconds; null: no notice. */
export type ExpiryTimes = Pick<ExpiryRequest, 'secretsWithinMs' | 'apiKeysWithinMs'>

/** Notices of each kind in a part. */
const EXPIRY_LIMIT = 500

/**
 * Creates the task that claims the notices of secrets and API keys about to expire, and erases previous secrets that have expired. After a lost result the task repeats the
 * claim under the same token.
 */
export function createExpiryWatch(
  store: NoticeStore,
  times: ExpiryTimes,
  notify: (notices: readonly Notice[]) => void,
): MaintenanceTask {
  const name = randomBytes(8).toString('hex')
  let requestsMade = 0
  let unansweredToken: string | undefined

  return async () => {
    unansweredToken ??= `${name}-${++requestsMade}`
    const notices = await store.claimExpiring({ token: unansweredToken, ...times, limit: EXPIRY_LIMIT })
    unansweredToken = undefined
    notify(notices)
    return notices.length < EXPIRY_LIMIT
  }
}

// --- Overdue invoices ---

/** Invoices that a part marks at most. */
const OVERDUE_LIMIT = 500

/**
 * Creates the task that marks invoices of all organizations overdue, by the store's clock.
 *
 * @throws `TypeError` for a store without invoices
 */
export function createOverdueMarking(store: Pick<InvoiceStore, 'markOverdue'> | undefined): MaintenanceTask {
  if (store === undefined) {
    throw new TypeError("Cannot use option 'markOverdue' because the store has no slice 'invoices'")
  }
  const all = { organizationId: null, asOf: null, limit: OVERDUE_LIMIT }
  return async () => {
    const marked = await store.markOverdue(overdueRequest(all, { now: Date.now() }))
    return marked.length < OVERDUE_LIMIT
  }
}
