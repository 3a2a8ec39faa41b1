import { describeError } from '../base/log.ts'
import { channels } from '../base/tracing.ts'
import type { EndpointHealth, FailedDelivery } from '../webhooks/claims.ts'
import { NOTICE_LINES, type Notice } from '../webhooks/notices.ts'
import type { ResolvedLoopOptions } from './loop-options.ts'

/** Passes notices and failures on to the host. Listeners that throw or reject don't affect anything else. */
export interface Notifier {
  /** Sends notices to the log, the `business-api:notice` channel and `onNotice`. */
  notify(notices: readonly Notice[]): void
  /** Groups failed deliveries by endpoint. Sends a notice once there haven't been any more for a while. */
  notifyFailed(failed: readonly FailedDelivery[]): void
  /** Sends the notices for all groups immediately. */
  flush(): void
  /** Reports a failure that holds up deliveries to the log and `onError`. */
  reportFailure(error: unknown): void
}

/** Send a group's notice after this long without another failure, or after the maximum time. In milliseconds. */
const FAILED_QUIET_MS = 5000
const FAILED_MAX_MS = 60_000

/** An endpoint's failed deliveries that we haven't sent a notice for yet. */
interface FailedGroup {
  readonly first: FailedDelivery
  readonly endsAt: number
  count: number
  timer?: NodeJS.Timeout
}

/** Creates a loop's notifier. */
export function createNotifier({
  logger,
  onNotice,
  onError,
  deliveryNotices,
}: Pick<ResolvedLoopOptions, 'logger' | 'onNotice' | 'onError' | 'deliveryNotices'>): Notifier {
  const groups = new Map<string, FailedGroup>()

  function group(delivery: FailedDelivery): void {
    const key = JSON.stringify([delivery.organizationId, delivery.endpointId])
    const now = performance.now()
    const known: FailedGroup = groups.get(key) ?? { first: delivery, endsAt: now + FAILED_MAX_MS, count: 0 }
    groups.set(key, known)
    known.count++
    clearTimeout(known.timer)
    known.timer = setTimeout(send, Math.max(0, Math.min(FAILED_QUIET_MS, known.endsAt - now)), key).unref()
  }

  function send(key: string): void {
    const known = groups.get(key)
    groups.delete(key)
    clearTimeout(known?.timer)
    if (known) notifyOf({ kind: 'delivery_failed', ...known.first, count: known.count })
  }

  function notifyOf(notice: Notice): void {
    const [level, message] = NOTICE_LINES[notice.kind]
    logger[level](notice, message)
    if (channels.notice.hasSubscribers) channels.notice.publish(notice)
    callListener('onNotice', () => onNotice(notice), report)
  }

  function report(error: unknown): void {
    callListener(
      'onError',
      () => onError(error),
      () => {},
    )
  }

  /** Calls a host listener, which may be async even though the type says otherwise. */
  function callListener(name: string, call: () => unknown, onFailure: (failure: unknown) => void): void {
    const fail = (failure: unknown): void => {
      logger.error({ error: describeError(failure) }, `${name} failed`)
      onFailure(failure)
    }
    try {
      Promise.resolve(call()).catch(fail)
    } catch (failure) {
      fail(failure)
    }
  }

  return {
    notify(notices) {
      for (const notice of notices) notifyOf(notice)
    },
    notifyFailed(failed) {
      for (const delivery of failed) {
        if (deliveryNotices === 'grouped') group(delivery)
        else notifyOf({ kind: 'delivery_failed', ...delivery, count: 1 })
      }
    },
    flush() {
      for (const key of [...groups.keys()]) send(key)
    },
    reportFailure(error) {
      logger.warn({ error: describeError(error) }, 'Webhook deliveries held up')
      report(error)
    },
  }
}

/** Returns notices for endpoints that are newly failing or disabled. */
export function noticesOfEndpoints(endpoints: readonly EndpointHealth[]): readonly Notice[] {
  return endpoints.flatMap((endpoint): readonly Notice[] => {
    const { organizationId, endpointId, failures, failingSince, disabledReason } = endpoint
    const details = { organizationId, endpointId, failures, failingSince }
    if (endpoint.isNewlyFailing) return [{ kind: 'endpoint_failing', ...details }]
    if (!endpoint.isNewlyDisabled) return []
    return [{ kind: 'endpoint_disabled', ...details, reason: disabledReason === 'gone' ? 'gone' : 'failing' }]
  })
}
