import { randomBytes } from 'node:crypto'
import type { ExpiryRequest, Notice, NoticeStore } from '../webhooks/notices.ts'
import type { MaintenanceTask } from './maintenance.ts'

/** Time between a notice and the expiry, in milliseconds; null: no notice. */
export type ExpiryTimes = Pick<ExpiryRequest, 'secretsWithinMs' | 'apiKeysWithinMs'>

/** Notices of each kind in a part. */
const EXPIRY_LIMIT = 500

/**
 * Creates the task that claims the notices of secrets and API keys about to expire. After a lost answer the task repeats the
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
    if (times.secretsWithinMs === null && times.apiKeysWithinMs === null) return true
    unansweredToken ??= `${name}-${++requestsMade}`
    const notices = await store.claimExpiring({ token: unansweredToken, ...times, limit: EXPIRY_LIMIT })
    unansweredToken = undefined
    notify(notices)
    return notices.length < EXPIRY_LIMIT
  }
}
