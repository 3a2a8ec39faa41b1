import { setTimeout as sleep } from 'node:timers/promises'
import { BusinessApiError, isStoreUnavailable, NOT_FOUND } from '../../base/errors.ts'
import type { DeliveryQuery, DeliverySettings } from '../../settings/deliveries.ts'
import type { Delivery, DeliveryAttempt } from '../../webhooks/deliveries.ts'
import { type Command, defineCommand } from '../command.ts'
import { organization } from '../common-flags.ts'
import { withSettings } from '../database.ts'
import { formatDuration } from '../durations.ts'
import { text } from '../flags.ts'
import { formatCount } from '../progress.ts'
import { formatNow, type Watch, watchUntilStopped } from '../watching.ts'

/** Prints deliveries and attempts as these are recorded. */
export const tail: Command = defineCommand({
  name: 'tail',
  summary: 'prints the deliveries and attempts of an organization as these are recorded',
  about: `A line for each new delivery that waits, for each attempt, and for each delivery that ends without an attempt. Follows the newest 1000 deliveries that are still to be sent, and all that are made from now on; of those behind the newest 1000 at most 10,000, and 50 a second. At most 50 deliveries a second are printed; others are counted.`,
  flags: { organization, endpoint: text('ID', 'to this endpoint only') },
  examples: [
    { purpose: 'beside a running deliver', line: 'business-api-kit deliveries tail --organization org_42' },
    {
      purpose: 'the failed attempts, for a program',
      line: `business-api-kit deliveries tail --organization org_42 --json | jq -c 'select(.event == "attempt" and .state != "delivered")'`,
    },
  ],
  async run({ organization: owner, endpoint }, session) {
    const query = endpoint === undefined ? {} : { endpointId: endpoint }
    await withSettings(session, ({ deliveries: log }) =>
      watchUntilStopped(session, async (watch) => {
        const follower = createFollower(log, owner, query)
        await follower.look()
        await watch.print({ event: 'started' }, () => 'Following deliveries. Ctrl-C or SIGTERM stops.')
        while (!watch.signal.aborted) {
          await sleep(INTERVAL_MS, undefined, { signal: watch.signal }).catch(() => {})
          if (watch.signal.aborted) break
          await printNews(watch, follower).catch((error) => {
            if (!isStoreUnavailable(error)) throw error
            watch.onUnavailable(error)
          })
        }
      }),
    )
    await session.print({ event: 'stopped' }, () => 'Stopped\n')
  },
})

const INTERVAL_MS = 1000
/** Deliveries whose attempts are read and printed after a look: more cannot be read by people. */
const PRINTED_MAX = 50
const PAGE_SIZE = 200
/** Pages of a look at the newest deliveries, and at those that are still to be sent. */
const PAGES_MAX = 5
/** Deliveries behind the newest that are read in a look, one by one. */
const READ_MAX = 50
/** Deliveries behind the newest that are followed: an organization may have millions that wait. */
const BEHIND_MAX = 10_000
/** A delivery is committed at most so long after it was made; one that comes later is seen while it is still to be sent. */
const LATE_MS = 60_000

async function printNews(watch: Watch, follower: Follower): Promise<void> {
  const changed = await follower.look()
  for (const { id, attemptsBefore } of changed.slice(0, PRINTED_MAX)) {
    const details = await follower.read(id)
    if (watch.signal.aborted) return
    const fresh = details.attemptLog.filter(({ number }) => number > attemptsBefore)
    for (const attempt of fresh) await printAttempt(watch, details, attempt)
    if (fresh.length === 0) await printState(watch, details)
    follower.note(details)
  }
  const rest = changed.slice(PRINTED_MAX)
  for (const { delivery } of rest) follower.note(delivery)
  if (rest.length > 0) {
    await watch.print(
      { event: 'more', deliveries: rest.length },
      () => `… and ${formatCount(rest.length)} more`,
    )
  }
}

/** `09:00:01Z  failed: 503  34 ms  invoice.paid  dlv_01K…  we_01K…  attempt 2` */
function printAttempt(watch: Watch, delivery: Delivery, attempt: DeliveryAttempt): Promise<void> {
  const { id, eventId, type, endpointId, state, reason } = delivery
  const { number, startedAt, status, error, durationMs } = attempt
  const value = {
    deliveryId: id,
    eventId,
    type,
    endpointId,
    state,
    reason,
    number,
    startedAt,
    status,
    error,
    durationMs,
  }
  return watch.print({ event: 'attempt', ...value }, () => {
    const answer = String(status ?? error ?? 'no answer')
    const isDelivered = status !== null && status >= 200 && status < 300
    const parts = [
      formatNow(new Date(startedAt)),
      isDelivered ? answer : `failed: ${answer}`,
      formatDuration(durationMs),
      type,
      id,
      endpointId,
      ...(number > 1 ? [`attempt ${number}`] : []),
      ...(state === 'dead_lettered' ? [`dead-lettered (${reason})`] : []),
    ]
    return parts.join('  ')
  })
}

/** `09:00:01Z  skipped (endpoint_disabled)  invoice.paid  dlv_01K…  we_01K…` */
function printState(watch: Watch, delivery: Delivery): Promise<void> {
  const { id, eventId, type, endpointId, state, reason } = delivery
  return watch.print({ event: 'delivery', deliveryId: id, eventId, type, endpointId, state, reason }, () =>
    [formatNow(), reason === null ? state : `${state} (${reason})`, type, id, endpointId].join('  '),
  )
}

/** Finds the deliveries that have changed since the previous look. */
export interface Follower {
  /** The first look changes nothing and finds nothing. */
  look(): Promise<readonly Change[]>
  read: (id: string) => ReturnType<DeliverySettings['get']>
  /** Remembers a delivery as it is now. */
  note(delivery: Delivery): void
}

interface Change {
  readonly id: string
  readonly delivery: Delivery
  /** Attempts that were recorded at the previous look. */
  readonly attemptsBefore: number
}

/** Creates the follower of an organization's deliveries. */
export function createFollower(log: DeliverySettings, owner: string, query: DeliveryQuery): Follower {
  const known = new Map<string, Delivery>()
  let isFirst = true

  async function listAll(filter: DeliveryQuery): Promise<Delivery[]> {
    const found: Delivery[] = []
    let before: string | null = null
    for (let page = 0; page < PAGES_MAX; page++) {
      const { data, next }: Awaited<ReturnType<DeliverySettings['list']>> = await log.list(owner, {
        ...query,
        ...filter,
        limit: PAGE_SIZE,
        before,
      })
      found.push(...data)
      before = next
      if (before === null) break
    }
    return found
  }

  return {
    async look() {
      const recent = await listAll({ since: new Date(Date.now() - LATE_MS) })
      const open = await listAll({ states: ['pending', 'in_flight'] })
      const present = new Map([...recent, ...open].map((delivery) => [delivery.id, delivery] as const))
      // Those that were to be sent and are no longer among the newest, the longest unread first.
      const behind = [...known.values()].filter((delivery) => isOpen(delivery) && !present.has(delivery.id))
      for (const delivery of behind.slice(0, READ_MAX)) {
        const { id } = delivery
        const now = await log.get(owner, id).catch(ignoreUnknown)
        known.delete(id)
        known.set(id, delivery)
        if (now) present.set(id, now)
      }
      for (const delivery of behind.slice(READ_MAX).slice(-BEHIND_MAX)) present.set(delivery.id, delivery)
      for (const id of known.keys()) if (!present.has(id)) known.delete(id)
      const changed = [...present.values()]
        .filter((delivery) => isNews(delivery, known.get(delivery.id)))
        .sort((one, other) => (one.id < other.id ? -1 : 1))
      if (isFirst) for (const delivery of changed) known.set(delivery.id, delivery)
      const news = isFirst ? [] : changed
      isFirst = false
      return news.map((delivery) => {
        // An old delivery that was not known was sent again: the attempts so far are no news.
        const isAgain = isOpen(delivery) && Date.parse(delivery.createdAt) < Date.now() - LATE_MS
        const before = known.get(delivery.id) ?? (isAgain ? delivery : undefined)
        return { id: delivery.id, delivery, attemptsBefore: recordedAttempts(before) }
      })
    },
    read: (id) => log.get(owner, id),
    note: (delivery) => void known.set(delivery.id, delivery),
  }
}

/** A purge may have erased a delivery meanwhile. */
function ignoreUnknown(error: unknown): null {
  if (error instanceof BusinessApiError && error.code === NOT_FOUND) return null
  throw error
}

function isOpen({ state }: Delivery): boolean {
  return state === 'pending' || state === 'in_flight'
}

/** An attempt in flight is counted, and not recorded yet. */
function recordedAttempts(delivery: Delivery | undefined): number {
  if (delivery === undefined) return 0
  return delivery.state === 'in_flight' ? delivery.attempts - 1 : delivery.attempts
}

/** The begin of an attempt is no news: its result is. */
function isNews(delivery: Delivery, before: Delivery | undefined): boolean {
  if (before === undefined) return delivery.state !== 'in_flight'
  if (recordedAttempts(delivery) !== recordedAttempts(before)) return true
  return delivery.state !== before.state && delivery.state !== 'in_flight' && before.state !== 'in_flight'
}
