import type { Logger } from '../base/log.ts'
import {
  flag,
  type Names,
  type OptionReaders,
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

/** Options of `createDeliveryLoop`. Each is read once. */
export interface DeliveryLoopOptions {
  /** Maximum number of attempts in flight: of this loop, or of all loops with the same `createDeliverySlots(…)`. Default 256. */
  concurrency?: number | DeliverySlots | undefined
  /**
   * Duration of a claim in milliseconds: after this time another process takes this process for dead and repeats the
   * attempt. Below 15,000 also attempts that take the full 10 seconds are repeated. Default 30,000, at least 100.
   */
  leaseMs?: number | undefined
  /**
   * Milliseconds between two polls. Events published through the library wake the loops of all processes at once; the poll
   * finds events published by SQL, and events with a lost notification. Default 100.
   */
  pollIntervalMs?: number | undefined
  /** Milliseconds between the attempts of a round: four delays make five attempts. Default 30, 60, 120, 240 seconds. */
  retryDelaysMs?: readonly number[] | undefined
  /** The key ring that signing secrets are sealed with: see `createDeveloperSettings`. */
  secretKeys?: readonly (string | Uint8Array)[] | undefined
  /**
   * Lets deliveries use secrets that are stored unsealed although there are `secretKeys`, until `secrets.reseal` has sealed
   * these secrets. Each endpoint with an unsealed secret causes a notice. Default `false`: such deliveries wait.
   */
  allowPlaintextSecrets?: boolean | undefined
  /**
   * The name of the host's installation, such as `production`: 1 to 64 visible ASCII characters. The first loop with a name writes it to
   * the database. A loop with another name, or without one, then waits: a restored or copied database does not send to customers. Nor does a
   * loop with a name on a copy of a database without one. Default none.
   */
  installation?: string | undefined
  /** Milliseconds after which events, deliveries and attempts are purged; `false`: never. Default 30 days. */
  retentionMs?: number | false | undefined
  /**
   * Marks invoices of all organizations overdue, each minute and with each `runOnce`, as `platform.invoices.markOverdue`
   * does for an organization. Default false.
   */
  markOverdue?: boolean | undefined
  /** When an endpoint that only fails is disabled. Default 50 failures and 5 days. */
  failureLimit?: FailureLimit | undefined
  /**
   * Time between a notice and the expiry, in milliseconds; `false`: no notice. Default an hour for the previous
   * signing secret of a rotation, 7 days for API keys.
   */
  expiryNoticeMs?:
    | { signingSecrets?: number | false | undefined; apiKeys?: number | false | undefined }
    | false
    | undefined
  /**
   * Receives the notices for operators, each after the cause has been written: {@link Notice} says how often each kind is
   * sent. The channel `business-api:notice` publishes the same notices. A listener that throws or rejects disturbs nothing:
   * the error goes to `onError`.
   */
  onNotice?: ((notice: Notice) => void) | undefined
  /**
   * `grouped`: deliveries of an endpoint that fail together are one `delivery_failed` notice with their number, because a dead
   * endpoint fails thousands. `each`: a notice for each delivery. Default `grouped`.
   */
  deliveryNotices?: 'grouped' | 'each' | undefined
  /** pino, or a logger with the same call form. `false` mutes. Default: warnings and errors to stderr. */
  logger?: Logger | false | undefined
  /** Receives every failure of the store and every bug, with all details. */
  onError?: ((error: unknown) => void) | undefined
}

const HOUR_MS = 60 * 60 * 1000
const DAY_MS = 24 * HOUR_MS

const FAILURE_NAMES: Names<FailureLimit> = { failures: true, failingMs: true }
const EXPIRY_NAMES = { signingSecrets: true, apiKeys: true } as const

const READERS = {
  concurrency: (given): DeliverySlots => (given instanceof Object ? given : createDeliverySlots(given)),
  leaseMs: whole(30_000, { min: 100 }),
  pollIntervalMs: whole(100),
  retryDelaysMs: readDelays,
  secretKeys: (given) => given,
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

/** The options after defaults and checks, and the service of the store. */
export interface ResolvedLoopOptions
  extends Service,
    Omit<ReadBy<typeof READERS>, 'secretKeys' | 'concurrency' | 'expiryNoticeMs'> {
  readonly concurrency: number
  readonly slots: DeliverySlots
  readonly expiryTimes: ExpiryTimes
}

/**
 * Fills in the defaults and checks the options.
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
  if (typeof name === 'string' && INSTALLATION.test(name)) return name
  throw new TypeError("Cannot use option 'installation' because it must be 1 to 64 visible ASCII characters")
}

/** The name of an installation. */
export const INSTALLATION: RegExp = /^[!-~]{1,64}$/

function readPositive(name: string, value: number): number {
  if (Number.isFinite(value) && value > 0) return value
  throw new RangeError(
    `Cannot use option '${name}' because it must be a positive number of milliseconds: current value is ${value}`,
  )
}

function readDelays(delays: readonly number[] = RETRY_DELAYS_MS): readonly number[] {
  if (!Array.isArray(delays)) {
    throw new TypeError("Cannot use option 'retryDelaysMs' because it must be a list of milliseconds")
  }
  return Array.from(delays, (delay) => readWhole('retryDelaysMs', delay ?? Number.NaN, 0, { min: 0 }))
}

function readFailureLimit(limit: FailureLimit = { failures: 50, failingMs: 5 * DAY_MS }): FailureLimit {
  rejectUnknown(limit, FAILURE_NAMES, 'failureLimit.')
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
      `Cannot use option 'expiryNoticeMs' because it must be false or an object: current value is ${given}`,
    )
  }
  rejectUnknown(given, EXPIRY_NAMES, 'expiryNoticeMs.')
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
    `Cannot use option 'deliveryNotices' because it must be 'grouped' or 'each': current value is ${given}`,
  )
}
