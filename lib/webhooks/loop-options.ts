import type { FailureLimit } from '../deliveries.ts'
import type { Logger } from '../log.ts'
import type { Notice } from '../notices.ts'
import { readFlag, readHeaderPrefix, readLogger, readWhole } from '../options.ts'
import type { ExpiryTimes } from './expiry.ts'
import { RETRY_DELAYS_MS } from './verdict.ts'

/** Options of `createDeliveryLoop`. Each is read once. */
export interface DeliveryLoopOptions {
  /** Attempts of this process in flight at once, of all endpoints. Default 256. */
  concurrency?: number | undefined
  /**
   * Milliseconds for which a claim is this process's: after so long another one takes it for dead and makes the attempt
   * again. Below 15,000 that also happens to an attempt that takes its 10 seconds. Default 30,000, at least 100.
   */
  leaseMs?: number | undefined
  /**
   * Milliseconds between two looks for what is due when nobody has called. What this process or another one publishes
   * through the library is heard of at once; this is for events published by SQL, and for all that gets lost. Default 100.
   */
  pollIntervalMs?: number | undefined
  /** Waits between the attempts of a round in milliseconds, one fewer than attempts. Default 30, 60, 120, 240 seconds. */
  retryDelaysMs?: readonly number[] | undefined
  /** `X-SERVICE` in `X-SERVICE-Event-Id`. Default `X-SERVICE`. */
  headerPrefix?: string | undefined
  /** The key ring that signing secrets are sealed with: see `createDeveloperSettings`. */
  secretKeys?: readonly (string | Uint8Array)[] | undefined
  /** Accepted for symmetry with `createDeveloperSettings`: what was stored open can always be read. */
  allowPlaintextSecrets?: boolean | undefined
  /** Milliseconds after which events, deliveries and attempts are forgotten; `false`: never. Default 30 days. */
  retentionMs?: number | false | undefined
  /**
   * Whether to mark invoices overdue, of all organizations, each minute and with each `runOnce`: what
   * `platform.invoices.markOverdue` does for one. Default false.
   */
  markOverdue?: boolean | undefined
  /** When an endpoint that only fails is disabled. Default 50 failures and 5 days. */
  failureLimit?: FailureLimit | undefined
  /**
   * How long before its end the host hears of what will expire, in milliseconds; `false`: not at all. Default an hour for
   * the signing secret of before a rotation, 7 days for API keys.
   */
  expiryNoticeMs?:
    | { signingSecrets?: number | false | undefined; apiKeys?: number | false | undefined }
    | false
    | undefined
  /**
   * Hears of what an operator should know, when it has been written: see {@link Notice} for what there is and how often it
   * comes. The channel `business-api:notice` publishes the same. One that throws or rejects harms nothing; `onError` hears
   * of it.
   */
  onNotice?: ((notice: Notice) => void) | undefined
  /** pino, or anything of its call form. `false` mutes. Default: warnings and errors to stderr. */
  logger?: Logger | false | undefined
  /** Hears every failure of the store and every bug, with its detail. */
  onError?: ((error: unknown) => void) | undefined
}

/** The options with their defaults, checked. */
export interface LoopSettings {
  readonly concurrency: number
  readonly leaseMs: number
  readonly pollIntervalMs: number
  readonly retryDelaysMs: readonly number[]
  readonly headerPrefix: string
  readonly retentionMs: number | false
  readonly markOverdue: boolean
  readonly failureLimit: FailureLimit
  readonly logger: Logger
  readonly expiryTimes: ExpiryTimes
  readonly onNotice: (notice: Notice) => unknown
  readonly onError: (error: unknown) => unknown
}

const HOUR_MS = 60 * 60 * 1000
const DAY_MS = 24 * HOUR_MS

/** @throws `TypeError` or `RangeError` naming the option that cannot be used */
export function readLoopOptions(options: DeliveryLoopOptions): LoopSettings {
  const { retentionMs = 30 * DAY_MS } = options
  return {
    concurrency: readWhole('concurrency', options.concurrency, 256),
    leaseMs: readWhole('leaseMs', options.leaseMs, 30_000, { min: 100 }),
    pollIntervalMs: readWhole('pollIntervalMs', options.pollIntervalMs, 100),
    retryDelaysMs: readDelays(options.retryDelaysMs),
    headerPrefix: readHeaderPrefix(options.headerPrefix),
    markOverdue: readFlag('markOverdue', options.markOverdue),
    retentionMs: retentionMs === false ? false : readPositive('retentionMs', retentionMs),
    failureLimit: readFailureLimit(options.failureLimit),
    logger: readLogger(options.logger),
    expiryTimes: readExpiryTimes(options.expiryNoticeMs),
    onNotice: readListener('onNotice', options.onNotice),
    onError: readListener('onError', options.onError),
  }
}

function readPositive(name: string, value: number): number {
  if (Number.isFinite(value) && value > 0) return value
  throw new RangeError(
    `Cannot use option '${name}' as it must be a positive number of milliseconds: current value is ${value}`,
  )
}

function readDelays(delays: readonly number[] = RETRY_DELAYS_MS): readonly number[] {
  if (!Array.isArray(delays)) {
    throw new TypeError("Cannot use option 'retryDelaysMs' as it must be a list of milliseconds")
  }
  return Array.from(delays, (delay) => readWhole('retryDelaysMs', delay ?? Number.NaN, 0, { min: 0 }))
}

function readFailureLimit(
  { failures, failingMs }: FailureLimit = { failures: 50, failingMs: 5 * DAY_MS },
): FailureLimit {
  return {
    failures: readWhole('failureLimit.failures', failures ?? Number.NaN, 0),
    failingMs: readPositive('failureLimit.failingMs', failingMs),
  }
}

function readExpiryTimes(given: DeliveryLoopOptions['expiryNoticeMs'] = {}): ExpiryTimes {
  if (given === false) return { secretsWithinMs: null, apiKeysWithinMs: null }
  if (typeof given !== 'object' || given === null) {
    throw new TypeError(
      `Cannot use option 'expiryNoticeMs' as it must be false or an object: current value is ${given}`,
    )
  }
  const { signingSecrets = HOUR_MS, apiKeys = 7 * DAY_MS } = given
  const read = (name: string, ms: number | false): number | null =>
    ms === false ? null : readPositive(`expiryNoticeMs.${name}`, ms)
  return {
    secretsWithinMs: read('signingSecrets', signingSecrets),
    apiKeysWithinMs: read('apiKeys', apiKeys),
  }
}

function readListener<Heard>(
  name: string,
  listener: (heard: Heard) => unknown = () => {},
): (heard: Heard) => unknown {
  if (typeof listener === 'function') return listener
  throw new TypeError(`Cannot use option '${name}' as it must be a function: current value is ${listener}`)
}
