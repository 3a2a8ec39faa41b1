import { randomBytes } from 'node:crypto'
import type { ExpiryRequest, Notice, NoticeStore } from '../notices.ts'
import type { Chore } from './chores.ts'

/** How long before the end of what the host hears of it. */
export type ExpiryTimes = Pick<ExpiryRequest, 'secretsWithinMs' | 'apiKeysWithinMs'>

/** Of each kind that one part asks for. */
const EXPIRY_LIMIT = 500

/** Asks for what will soon expire, and tells of it. A request whose answer was lost is repeated under its own token. */
export function createExpiryWatch(
  store: NoticeStore,
  times: ExpiryTimes,
  announce: (notices: readonly Notice[]) => void,
): Chore {
  const name = randomBytes(8).toString('hex')
  let requestsMade = 0
  let unanswered: string | undefined

  return async () => {
    if (times.secretsWithinMs === null && times.apiKeysWithinMs === null) return true
    unanswered ??= `${name}-${++requestsMade}`
    const notices = await store.claimExpiring({ token: unanswered, ...times, limit: EXPIRY_LIMIT })
    unanswered = undefined
    announce(notices)
    return notices.length < EXPIRY_LIMIT
  }
}
