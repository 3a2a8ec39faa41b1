import { randomBytes } from 'node:crypto'
import type { InvoiceStore } from '../resources/invoices.ts'
import { overdueRequest } from '../resources/overdue.ts'
import type { DeliveryStore, RetainedDelivery } from '../webhooks/deliveries.ts'
import type { ExpiryRequest, Notice, NoticeStore, RetentionBehindNotice } from '../webhooks/notices.ts'
import type { MaintenanceTask } from './maintenance.ts'

// --- Old events ---

/** Maximum number of rows of each kind per part of the purge. It's reduced if a part fails or takes too long. */
const PURGE_LIMIT = 1000
const PURGE_LIMIT_MIN = 10
const PART_MAX_MS = 1000

/** Share of one connection's time that all processes together may spend on purging. */
const PURGE_SHARE = 0.25

/** 1,000 years, which is longer than anyone keeps events. */
const FOREVER_MS = 1000 * 365 * 24 * 60 * 60 * 1000

/** Number of consecutive failures after which a notice is sent. */
const FAILURES_MAX = 3
/** The lag tolerated without a notice, and the time to catch up after all loops were stopped, in milliseconds. */
const LAG_MAX_MS = 60 * 60 * 1000
const CATCH_UP_MS = 10 * 60 * 1000

/**
 * Creates the task that purges old events and expired idempotency keys part by part. Sends a notice if the purge keeps
 * failing or can't keep up, and doesn't repeat the notice until the purge has recovered. Separate notices are sent for
 * endpoints whose open deliveries prevent old events from being purged.
 *
 * @param retentionMs age of the events to purge in milliseconds, or `false` to only purge expired idempotency keys
 * @param now returns the milliseconds of a monotonic clock
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
    // `null` means that nothing was purged because another process is purging or the purge is pausing.
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

/** How long before an expiry to send a notice, in milliseconds. `null` for no notices. */
export type ExpiryTimes = Pick<ExpiryRequest, 'secretsWithinMs' | 'apiKeysWithinMs'>

/** Maximum number of notices of each kind per part. */
const EXPIRY_LIMIT = 500

/**
 * Creates the task that claims notices about secrets and API keys that are about to expire, and erases expired previous
 * secrets. If a result is lost, the claim is repeated with the same token.
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

/** Maximum number of invoices to mark per part. */
const OVERDUE_LIMIT = 500

/**
 * Creates the task that marks overdue invoices of all organizations, by the store's clock.
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
