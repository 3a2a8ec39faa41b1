import { readHaving } from '../base/options.ts'
import { traceStore } from '../base/tracing.ts'
import type { BusinessApiStore } from '../business-store.ts'
import { serviceOf } from '../service.ts'
import type { DeliveryStore } from '../webhooks/deliveries.ts'
import { createSecretSealer } from '../webhooks/secret-sealing.ts'
import type { WebhookSender } from '../webhooks/webhook-sender.ts'
import { createDispatcher, type Dispatcher, refOf } from './dispatcher.ts'
import { createInstallationGuard, type InstallationGuard } from './installation-guard.ts'
import { type DeliveryLoopOptions, type ResolvedLoopOptions, resolveLoopOptions } from './loop-options.ts'
import { createLoopSteps, type LoopSteps } from './loop-steps.ts'
import { createMaintenance, type Maintenance } from './maintenance.ts'
import { createExpiryWatch, createOverdueMarking, createPurge } from './maintenance-tasks.ts'
import { createNotifier, type Notifier, noticesOfEndpoints } from './notifier.ts'
import { createPoller, type Poller, type Unread } from './poller.ts'
import { createPrefetcher, type Prefetcher } from './prefetcher.ts'
import { createEndpointQueues, type EndpointQueues } from './queues.ts'
import { createReader, type Reader, type ReadListener } from './reader.ts'
import { createResultWriter, type ResultWriter, type UntimedResult } from './result-writer.ts'
import { createWakeUp, TIMER_EARLY_MS, type WakeUp } from './wake-up.ts'

/**
 * The parts of a store that a loop uses. `invoices` is only needed for `markOverdue`, and `installation` is missing if
 * the store's data can't be copied.
 */
export type LoopStore = Pick<BusinessApiStore, 'service' | 'deliveries' | 'notices'> &
  Partial<Pick<BusinessApiStore, 'invoices' | 'installation'>>

/** The parts that make up a loop. */
export interface LoopParts {
  readonly options: ResolvedLoopOptions
  readonly deliveries: DeliveryStore
  readonly steps: LoopSteps
  readonly wakeUp: WakeUp
  readonly notifier: Notifier
  readonly installation: InstallationGuard
  readonly queues: EndpointQueues
  readonly resultWriter: ResultWriter
  readonly dispatcher: Dispatcher
  readonly poller: Poller
  readonly reader: Reader
  readonly prefetcher: Prefetcher
  readonly maintenance: Maintenance
}

/**
 * Creates a loop's parts.
 *
 * @throws `TypeError` or `RangeError` for invalid options
 */
export function createLoopParts(
  store: LoopStore,
  sender: WebhookSender,
  given: DeliveryLoopOptions,
): LoopParts {
  const options = resolveLoopOptions(given, serviceOf(store))
  readHaving('The sender', sender, 'send', 'createWebhookSender()')
  const traced = traceStore(store)
  const { deliveries, notices, invoices } = traced
  const { concurrency, leaseMs, retryDelaysMs, failureLimit } = options

  const steps = createLoopSteps(deliveries)
  const wakeUp = createWakeUp()
  const notifier = createNotifier(options)
  const installation = createInstallationGuard(traced.installation, options.installation, notifier.notify)
  const queues = createEndpointQueues(options.slots)
  const resultWriter = createResultWriter(steps, failureLimit, {
    onWritten(results, { failed, endpoints }) {
      wakeForRetries(results, wakeUp)
      dispatcher.noteWritten(results)
      if (prefetcher.isHeldUp || results.some(({ backOffMs }) => backOffMs !== null)) wakeUp.wake()
      notifier.notifyFailed(failed)
      notifier.notify(noticesOfEndpoints(endpoints))
    },
    onError: notifier.reportFailure,
  })
  const sealer = createSecretSealer(given, (ref) => {
    notifier.notify([{ kind: 'secret_unsealed', ...ref }])
  })
  const dispatcher = createDispatcher({ sender, queues, resultWriter, sealer }, options, {
    onCapacity() {
      if (!prefetcher.isThrottling) wakeUp.wake()
    },
    onError: notifier.reportFailure,
  })
  const poller = createPoller(steps, { leaseMs, maxAttempts: retryDelaysMs.length + 1 })
  const reader: Reader = createReader(
    deliveries,
    leaseMs,
    createReadListener({ queues, resultWriter, dispatcher, notifier, wakeUp }, () => reader.pending),
  )
  const prefetcher = createPrefetcher(
    { sender, poller, reader, queues, resultWriter, dispatcher, notifier, wakeUp },
    concurrency,
  )
  const maintenance = createMaintenance(
    [
      ...(options.markOverdue ? [createOverdueMarking(invoices)] : []),
      createExpiryWatch(notices, options.expiryTimes, notifier.notify),
      createPurge(steps, options.retentionMs, notifier.notify),
    ].map(installation.guard),
    notifier.reportFailure,
  )

  return {
    options,
    deliveries,
    steps,
    wakeUp,
    notifier,
    installation,
    queues,
    resultWriter,
    dispatcher,
    poller,
    reader,
    prefetcher,
    maintenance,
  }
}

/** Passes deliveries from the reader to the dispatcher. Unreadable deliveries are released or failed. */
function createReadListener(
  parts: Pick<LoopParts, 'queues' | 'resultWriter' | 'dispatcher' | 'notifier' | 'wakeUp'>,
  countPending: () => number,
): ReadListener {
  const { queues, resultWriter, dispatcher, notifier, wakeUp } = parts

  function leave(unread: Unread): void {
    queues.removeUnread(unread)
    if (countPending() === 0) wakeUp.wake()
  }

  return {
    onRead(delivery) {
      queues.removeUnread(delivery, delivery)
      dispatcher.dispatch()
      if (countPending() === 0) wakeUp.wake()
    },
    onGone(unread) {
      resultWriter.release(refOf(unread))
      leave(unread)
    },
    onFailed(unread, cause, pauseMs) {
      notifier.reportFailure(new Error(`Cannot read delivery ${nameOf(unread)}`, { cause }))
      queues.block(unread, pauseMs)
      resultWriter.release(refOf(unread))
      leave(unread)
      setTimeout(wakeUp.wake, pauseMs + TIMER_EARLY_MS).unref()
    },
    onUnreadable(unread, cause) {
      const message = `Cannot read delivery ${nameOf(unread)}: it has failed as unreadable, and can be recovered`
      notifier.reportFailure(new Error(message, { cause }))
      const now = performance.now()
      resultWriter.write({ ...refOf(unread), ...UNREADABLE }, { startedAt: now, endedAt: now })
      leave(unread)
    },
  }
}

function nameOf({ organizationId, id }: Unread): string {
  return `${id} of organization ${organizationId}`
}

/** The result for a delivery that can't be read */
const UNREADABLE = {
  outcome: 'failed',
  reason: 'unreadable',
  isGone: false,
  delayMs: 0,
  backOffMs: null,
  durationMs: 0,
  dnsMs: null,
  connectMs: null,
  tlsMs: null,
  firstByteMs: null,
  status: null,
  error: 'unreadable',
  bodyExcerpt: '',
} as const

/** Wakes the loop when a retry is due, instead of waiting for the next poll. */
function wakeForRetries(results: readonly UntimedResult[], wakeUp: WakeUp): void {
  const retries = results.filter(({ outcome }) => outcome === 'retry')
  for (const delayMs of new Set(retries.map((retry) => retry.delayMs))) {
    setTimeout(wakeUp.wake, delayMs + TIMER_EARLY_MS).unref()
  }
}
