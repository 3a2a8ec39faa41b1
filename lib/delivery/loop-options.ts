import type { Logger } from '../base/log.ts'
import {
  flag,
  isMatching,
  type OptionReaders,
  printValue,
  type ReadBy,
  readEach,
  readFunction,
  readLogger,
  readWhole,
  rejectUnknown,
  whole,
} from '../base/options.ts'
import type { Service } from '../service.ts'
import type { FailureLimit } from '../webhooks/claims.ts'
import type { Notice } from '../webhooks/notices.ts'
import type { ExpiryTimes } from './maintenance-tasks.ts'
import { createDeliverySlots, type DeliverySlots } from './slots.ts'
import { RETRY_DELAYS_MS } from './verdict.ts'

/** Options for `createDeliveryLoop`. Each option is read once. */
export interface DeliveryLoopOptions {
  /** Maximum number of in-flight attempts. Use `createDeliverySlots(…)` to share it between loops. Defaults to 256. */
  concurrency?: number | DeliverySlots | undefined
  /**
   * Lease duration in milliseconds. When a lease expires, other processes assume this one is dead and retry the
   * attempt. With less than 15,000, that can happen to attempts that take the full 10 seconds. Minimum 100. Defaults
   * to 30,000.
   */
  leaseMs?: number | undefined
  /**
   * Poll interval in milliseconds. Events published through this library wake the loops in all processes immediately,
   * so polling is only for events published with SQL and for lost notifications. Defaults to 100.
   */
  pollIntervalMs?: number | undefined
  /** Delays between the attempts of a round, in milliseconds. Defaults to 30, 60, 120 and 240 s (five attempts). */
  retryDelaysMs?: readonly number[] | undefined
  /** The keys for signing secrets. See `createDeveloperSettings`. */
  secretKeys?: readonly (string | Uint8Array)[] | undefined
  /**
   * If `true`, plain text secrets can be used even if there are `secretKeys`, until `secrets.reseal` has sealed them.
   * You get a notice for each affected endpoint. Defaults to `false`, in which case these deliveries wait.
   */
  allowPlaintextSecrets?: boolean | undefined
  /**
   * Name of this installation, such as `production`. Must be 1 to 64 visible ASCII characters. The first loop with a
   * name stores it in the database. From then on, loops with a different name or none at all will wait, so a restored
   * or copied database doesn't send anything to your customers. Named loops also wait if an unnamed database was
   * copied. Unset by default.
   */
  installation?: string | undefined
  /** How long to keep events and deliveries, in milliseconds, or `false` to keep them forever. Defaults to 30 days. */
  retentionMs?: number | false | undefined
  /**
   * If `true`, every minute (and on every `runOnce`) marks overdue invoices in all organizations.
   * `platform.invoices.markOverdue` does the same for a single organization. Defaults to `false`.
   */
  markOverdue?: boolean | undefined
  /** When to disable a failing endpoint. Defaults to 50 failures and 5 days. */
  failureLimit?: FailureLimit | undefined
  /**
   * How long before an expiry to send a notice, in milliseconds, or `false` to disable. Defaults to one hour for the
   * previous signing secret after a rotation, and 7 days for API keys.
   */
  expiryNoticeMs?:
    | { signingSecrets?: number | false | undefined; apiKeys?: number | false | undefined }
    | false
    | undefined
  /**
   * Called with each operator notice after its cause has been written. See {@link Notice} for how often each kind is
   * sent. Notices are also published on the `business-api:notice` channel. If this throws or rejects, the error is
   * passed to `onError`.
   */
  onNotice?: ((notice: Notice) => void) | undefined
  /**
   * With `grouped`, deliveries to the same endpoint that fail together result in a single `delivery_failed` notice that
   * has their number, since a dead endpoint can fail thousands. With `each`, you get one notice per delivery. Defaults
   * to `grouped`.
   */
  deliveryNotices?: 'grouped' | 'each' | undefined
  /** A pino-compatible logger, or `false` to disable logging. Defaults to logging warnings and errors to stderr. */
  logger?: Logger | false | undefined
  /** Called with full details when the store fails, or when there's a bug. */
  onError?: ((error: unknown) => void) | undefined
}

const HOUR_MS = 60 * 60 * 1000
const DAY_MS = 24 * HOUR_MS

const READERS = {
  concurrency: (given): DeliverySlots =>
    typeof given === 'object' && typeof given?.free === 'function'
      ? given
      : createDeliverySlots(given as number),
  leaseMs: whole(30_000, { min: 100 }),
  pollIntervalMs: whole(100),
  retryDelaysMs: readDelays,
  // Checked by createSecretSealer. A parameter would be declared as Uint8Array<…>, which TypeScript 5.4 doesn't know.
  secretKeys: (): void => {},
  allowPlaintextSecrets: (given) => given,
  installation: readInstallation,
  retentionMs: (given = 30 * DAY_MS, name): number | false =>
    given === false ? false : readPositive(name, given),
  markOverdue: flag(),
  failureLimit: readFailureLimit,
  expiryNoticeMs: readExpiryTimes,
  onNotice: (given, name): ((notice: Notice) => unknown) => readFunction(name, given) ?? (() => {}),
  deliveryNotices: readGrouping,
  logger: (given) => readLogger(given),
  onError: (given, name): ((error: unknown) => unknown) => readFunction(name, given) ?? (() => {}),
} satisfies OptionReaders<DeliveryLoopOptions>

/** The validated options with defaults applied, along with the store's service. */
export interface ResolvedLoopOptions
  extends Service,
    Omit<ReadBy<typeof READERS>, 'secretKeys' | 'concurrency' | 'expiryNoticeMs'> {
  readonly concurrency: number
  readonly slots: DeliverySlots
  readonly expiryTimes: ExpiryTimes
}

/**
 * Validates the options and applies the defaults.
 *
 * @throws `TypeError` or `RangeError` naming the invalid option
 */
export function resolveLoopOptions(options: DeliveryLoopOptions, service: Service): ResolvedLoopOptions {
  const {
    secretKeys: _,
    concurrency: slots,
    expiryNoticeMs: expiryTimes,
    ...read
  } = readEach(options, READERS)
  return { ...service, ...read, concurrency: slots.concurrency, slots, expiryTimes }
}

function readInstallation(name: string | undefined): string | null {
  if (name === undefined) return null
  if (isMatching(name, INSTALLATION)) return name
  throw new TypeError("Option 'installation' must be 1 to 64 visible ASCII characters")
}

/** Matches valid installation names. */
export const INSTALLATION: RegExp = /^[!-~]{1,64}$/

function readPositive(name: string, value: number): number {
  if (Number.isFinite(value) && value > 0) return value
  throw new RangeError(
    `Option '${name}' must be a positive number of milliseconds: current value is ${printValue(value)}`,
  )
}

function readDelays(delays: readonly number[] = RETRY_DELAYS_MS): readonly number[] {
  if (!Array.isArray(delays)) {
    throw new TypeError("Option 'retryDelaysMs' must be a list of milliseconds")
  }
  return Array.from(delays, (delay) => readWhole('retryDelaysMs', delay ?? Number.NaN, 0, { min: 0 }))
}

function readFailureLimit(limit: FailureLimit = { failures: 50, failingMs: 5 * DAY_MS }): FailureLimit {
  rejectUnknown(limit, { failures: true, failingMs: true }, 'failureLimit.')
  const { failures, failingMs } = limit
  return {
    failures: readWhole('failureLimit.failures', failures ?? Number.NaN, 0),
    failingMs: readPositive('failureLimit.failingMs', failingMs),
  }
}

function readExpiryTimes(given: DeliveryLoopOptions['expiryNoticeMs'] = {}): ExpiryTimes {
  if (given === false) return { secretsWithinMs: null, apiKeysWithinMs: null }
  if (typeof given !== 'object' || given === null) {
    throw new TypeError(
      `Option 'expiryNoticeMs' must be false or an object: current value is ${printValue(given)}`,
    )
  }
  rejectUnknown(given, { signingSecrets: true, apiKeys: true }, 'expiryNoticeMs.')
  const { signingSecrets = HOUR_MS, apiKeys = 7 * DAY_MS } = given
  const read = (name: string, ms: number | false): number | null =>
    ms === false ? null : readPositive(`expiryNoticeMs.${name}`, ms)
  return {
    secretsWithinMs: read('signingSecrets', signingSecrets),
    apiKeysWithinMs: read('apiKeys', apiKeys),
  }
}

function readGrouping(given: 'grouped' | 'each' = 'grouped'): 'grouped' | 'each' {
  if (given === 'grouped' || given === 'each') return given
  throw new TypeError(
    `Option 'deliveryNotices' must be 'grouped' or 'each': current value is ${printValue(given)}`,
  )
}
