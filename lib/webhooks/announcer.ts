import type { DeadLetter, EndpointHealth } from '../deliveries.ts'
import { describeError } from '../log.ts'
import type { Notice } from '../notices.ts'
import { channels } from '../tracing.ts'
import type { LoopSettings } from './loop-options.ts'

/** Tells the host what it should hear of, whatever the host's own listeners do. */
export interface Announcer {
  /** To the log, the channel `business-api:notice` and `onNotice`. */
  announce(notices: readonly Notice[]): void
  /** What holds up the deliveries, to the log and `onError`. */
  fail(error: unknown): void
}

/** How a notice is logged. A dead letter is nothing to be warned of: a dead endpoint makes many. */
const LINES = {
  endpoint_failing: ['warn', 'Webhook endpoint failing'],
  endpoint_disabled: ['warn', 'Webhook endpoint disabled'],
  delivery_dead_lettered: ['info', 'Webhook delivery dead-lettered'],
  secret_expiring: ['info', 'Signing secret about to expire'],
  api_key_expiring: ['warn', 'API key about to expire'],
} as const satisfies Record<Notice['kind'], readonly ['info' | 'warn', string]>

/** Goes by the loop's own settings. */
export function createAnnouncer({
  logger,
  onNotice,
  onError,
}: Pick<LoopSettings, 'logger' | 'onNotice' | 'onError'>): Announcer {
  function announce(notice: Notice): void {
    const [level, message] = LINES[notice.kind]
    logger[level](notice, message)
    if (channels.notice.hasSubscribers) channels.notice.publish(notice)
    call('onNotice', () => onNotice(notice), report)
  }

  function report(error: unknown): void {
    call(
      'onError',
      () => onError(error),
      () => {},
    )
  }

  /** A listener may be async, whatever its type says. */
  function call(name: string, listener: () => unknown, onFailure: (failure: unknown) => void): void {
    const fail = (failure: unknown): void => {
      logger.error({ error: describeError(failure) }, `${name} failed`)
      onFailure(failure)
    }
    try {
      Promise.resolve(listener()).catch(fail)
    } catch (failure) {
      fail(failure)
    }
  }

  return {
    announce(notices) {
      for (const notice of notices) announce(notice)
    },
    fail(error) {
      logger.warn({ error: describeError(error) }, 'Webhook deliveries held up')
      report(error)
    },
  }
}

/** The notices of deliveries that were given up. */
export function ofDeadLetters(deadLetters: readonly DeadLetter[]): readonly Notice[] {
  return deadLetters.map((deadLetter) => ({ kind: 'delivery_dead_lettered', ...deadLetter }))
}

/** The notices of what attempts have made of their endpoints. */
export function ofEndpoints(endpoints: readonly EndpointHealth[]): readonly Notice[] {
  return endpoints.flatMap((endpoint): readonly Notice[] => {
    const { organizationId, endpointId, failures, failingSince, disabledReason } = endpoint
    const told = { organizationId, endpointId, failures, failingSince }
    if (endpoint.isNewlyFailing) return [{ kind: 'endpoint_failing', ...told }]
    if (!endpoint.isNewlyDisabled) return []
    return [{ kind: 'endpoint_disabled', ...told, reason: disabledReason === 'gone' ? 'gone' : 'failing' }]
  })
}
