import { describeError } from '../base/log.ts'
import { channels } from '../base/tracing.ts'
import type { EndpointHealth, FailedDelivery } from '../webhooks/deliveries.ts'
import type { Notice } from '../webhooks/notices.ts'
import type { ResolvedLoopOptions } from './loop-options.ts'

/** Passes notices and failures to the host; a listener of the host that throws or rejects disturbs nothing. */
export interface Notifier {
  /** Sends notices to the log, the channel `business-api:notice` and `onNotice`. */
  notify(notices: readonly Notice[]): void
  /** Reports a failure that holds up deliveries, to the log and `onError`. */
  reportFailure(error: unknown): void
}

/** Log level and message of each notice. A failed delivery is `info`, because a dead endpoint makes many. */
const LINES = {
  endpoint_failing: ['warn', 'Webhook endpoint failing'],
  endpoint_disabled: ['warn', 'Webhook endpoint disabled'],
  delivery_failed: ['info', 'Webhook delivery failed'],
  retention_behind: ['warn', 'Old events not purged in time'],
  events_kept: ['warn', 'Old events kept for an open delivery'],
  secret_unsealed: ['warn', 'Signing secret or headers stored unsealed'],
  secret_expiring: ['info', 'Signing secret about to expire'],
  api_key_expiring: ['warn', 'API key about to expire'],
} as const satisfies Record<Notice['kind'], readonly ['info' | 'warn', string]>

/** Creates the notifier of a loop. */
export function createNotifier({
  logger,
  onNotice,
  onError,
}: Pick<ResolvedLoopOptions, 'logger' | 'onNotice' | 'onError'>): Notifier {
  function notifyOf(notice: Notice): void {
    const [level, message] = LINES[notice.kind]
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

  /** Calls a listener of the host. The listener may be async, in spite of the type. */
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
    reportFailure(error) {
      logger.warn({ error: describeError(error) }, 'Webhook deliveries held up')
      report(error)
    },
  }
}

/** The notices of failed deliveries. */
export function noticesOfFailed(failed: readonly FailedDelivery[]): readonly Notice[] {
  return failed.map((delivery) => ({ kind: 'delivery_failed', ...delivery }))
}

/** The notices of endpoints that attempts have made failing or disabled. */
export function noticesOfEndpoints(endpoints: readonly EndpointHealth[]): readonly Notice[] {
  return endpoints.flatMap((endpoint): readonly Notice[] => {
    const { organizationId, endpointId, failures, failingSince, disabledReason } = endpoint
    const details = { organizationId, endpointId, failures, failingSince }
    if (endpoint.isNewlyFailing) return [{ kind: 'endpoint_failing', ...details }]
    if (!endpoint.isNewlyDisabled) return []
    return [{ kind: 'endpoint_disabled', ...details, reason: disabledReason === 'gone' ? 'gone' : 'failing' }]
  })
}
