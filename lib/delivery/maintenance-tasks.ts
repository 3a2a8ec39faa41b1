import { randomBytes } from 'node:crypto'
import type { InvoiceStore } from '../resources/invoices.ts'
import { overdueRequest } from '../resources/overdue.ts'
import type { DeliveryStore, RetainedDelivery } from '../webhooks/deliveries.ts'
import type { ExpiryRequest, Notice, NoticeStore, RetentionBehindNotice } from '../webhooks/notices.ts'
import type { MaintenanceTask } from './maintenance.ts'

// --- Old events ---

/** Maximum number of rows of each kind per purge batch. Reduced if a batch fails or takes too long. */
const PURGE_LIMIT = 1000
const PURGE_LIMIT_MIN = 10
const PART_MAX_MS = 1000

/** Share of a single connection's time that all processes together may spend purging. */
const PURGE_SHARE = 0.25

/** 1,000 years, which is longer than anyone keeps events */
const FOREVER_MS = 1000 * 365 * 24 * 60 * 60 * 1000

/** Number of consecutive failures before we send a notice. */
const FAILURES_MAX = 3
/** How far the purge may lag without a notice, and how long it gets to catch up after downtime, in milliseconds. */
const LAG_MAX_MS = 60 * 60 * 1000
const CATCH_UP_MS = 10 * 60 * 1000

/**
 * Creates the task that purges old events and expired idempotency keys in batches. Sends a notice if purging keeps
 * failing or can't keep up, and doesn't send another one until the purge has recovered. Endpoints whose open deliveries
 * prevent purging get their own notices.
 *
 * @param retentionMs how long to keep events, in milliseconds, or `false` to only purge expired idempotency keys
 * @param now returns monotonic milliseconds
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
    // `null` means this call didn't purge anything because another process is purging or it's too early.
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

/** How long before an expiry to send a notice, in milliseconds. `null` to disable. */
export type ExpiryTimes = Pick<ExpiryRequest, 'secretsWithinMs' | 'apiKeysWithinMs'>

/** Maximum number of notices of each kind per batch. */
const EXPIRY_LIMIT = 500

/**
 * Creates the task that claims expiry notices for secrets and API keys, and erases expired previous secrets. If a
 * response is lost, the claim is retried with the same token.
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

/** Maximum number of invoices to mark per batch. */
const OVERDUE_LIMIT = 500

/**
 * Creates the task that marks overdue invoices in all organizations, by the store's clock.
 *
 * @throws `TypeError` if the store has no invoices
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
