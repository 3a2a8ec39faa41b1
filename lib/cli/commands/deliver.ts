import { once } from 'node:events'
import { isStoreUnavailable } from '../../base/errors.ts'
import { type Logger, type LogLine, mutedLogger } from '../../base/log.ts'
import { type AttemptTrace, channels } from '../../base/tracing.ts'
import { visible } from '../../base/visible-text.ts'
import { createDeliveryLoop, type DeliveryLoop } from '../../delivery/delivery-loop.ts'
import type { DeliveryCounts } from '../../delivery/result-writer.ts'
import { createDeliverySlots } from '../../delivery/slots.ts'
import { sumOf } from '../../postgres/shards/routes.ts'
import { createPostgresStore } from '../../postgres/store.ts'
import { DESTINATION_REFUSED } from '../../sender/send-error.ts'
import { createWebhookSender } from '../../sender/sender.ts'
import { type Command, defineCommand } from '../command.ts'
import { DESTINATION_FLAGS, installation, RECENT_FLAGS, refuseRecent } from '../common-flags.ts'
import { requireSchema, withInspector } from '../database.ts'
import { formatDuration, formatNow, parseDuration, parseRetention } from '../durations.ts'
import { describeFailure, inFlags, nameTarget } from '../failure.ts'
import { parsed, parseWhole, toggle } from '../flags.ts'
import { formatCount } from '../progress.ts'
import { judgeSecrets, readSecretKeys, SECRETS_CHECKED_MAX } from '../sealing.ts'
import type { Session } from '../session.ts'
import { openShards } from '../shards.ts'
import { listenForSignals } from '../stop-signals.ts'
import type { Output } from '../terminal.ts'
import { visibleJson } from '../text.ts'

/** Runs the delivery loop as a process. */
export const deliver: Command = defineCommand({
  name: 'deliver',
  summary: 'delivers events until a signal stops it',
  about: `Any number of processes can deliver at once. SIGTERM and SIGINT wait for the attempts in flight and release the other deliveries. A second signal ends the process at once; its attempts in flight are repeated when their lease ends.
On a terminal each attempt is a line on stdout. Warnings and errors are lines of JSON on stderr. Needs the same BUSINESS_API_SECRET_KEYS as endpoints add.`,
  flags: {
    once: toggle('deliver what is due now, then end: for a scheduler'),
    quiet: toggle("don't print a line for each attempt"),
    concurrency: parsed('N', 'attempts in flight at once; default: 256', parseWhole),
    retention: parsed(
      'DURATION',
      "how long events, deliveries and attempts are kept, at least 1d, or 'never' to erase none; default: 30d",
      parseRetention,
    ),
    ...RECENT_FLAGS,
    timeout: parsed(
      'DURATION',
      'how long to wait for attempts in flight when stopping; default: 12s',
      parseDuration,
    ),
    markOverdue: toggle('mark unpaid invoices of all organizations as overdue after their due date'),
    pooler: toggle('the database is behind a pooler in transaction mode'),
    installation,
    ...DESTINATION_FLAGS,
    allowPlaintextSecrets: toggle(
      'accepted as elsewhere; a secret that was stored unsealed is always readable',
    ),
  },
  examples: {
    'as a service': 'business-api-kit deliver',
    'from cron': 'business-api-kit deliver --once',
    'to subscribers on this machine, while developing':
      'business-api-kit deliver --allow-http --allow-private-networks',
  },
  async run(
    {
      concurrency,
      retention,
      allowRecent,
      timeout,
      once: isOnce,
      quiet,
      pooler,
      markOverdue,
      installation,
      allowPlaintextSecrets,
      ...destinations
    },
    session,
  ) {
    if (typeof retention === 'number') refuseRecent(retention, allowRecent, '--retention')
    const { shards } = session
    const isSharded = shards.size > 0
    const urls = isSharded ? [...shards.values()] : [session.databaseUrl()]
    const secretKeys = readSecretKeys(session)
    const { service, terminal } = session
    const { stdout, stderr } = terminal
    const logger = createJsonLog(stderr)
    const check = async (url: string): Promise<void> => {
      await requireSchema(url)
      await warnOfSecrets(url, secretKeys, logger)
    }
    const checks = urls.map((url) =>
      check(url).catch((error) => {
        if (!isSharded || !isStoreUnavailable(error)) throw nameTarget(error, url)
        // Keep going, because this shard's loop will keep trying while the others deliver.
        logger.warn({}, describeFailure(nameTarget(error, url)).line)
      }),
    )
    await Promise.all(checks)

    // Without the flag, it depends on pgbouncer=true in the connection string.
    const connecting = { service, ...(pooler ? { prepare: false, sessions: false } : {}) }
    const store = isSharded ? openShards(shards, connecting) : createPostgresStore(urls[0] ?? '', connecting)
    const sender = createWebhookSender(destinations)
    const slots = createDeliverySlots(concurrency)
    const looping = {
      markOverdue,
      installation,
      allowPlaintextSecrets,
      concurrency: slots,
      retentionMs: retention,
      secretKeys,
      logger,
    }
    const loops = (store.shards ?? [{ store }]).map((shard) =>
      createDeliveryLoop(shard.store, sender, looping),
    )
    const isWatched = stdout.isTTY && !session.isJson && !quiet
    const endLines = isWatched ? writeAttempts(stdout) : () => {}
    try {
      const counts = await deliverAll(loops, isOnce, timeout, session)
      endLines()
      const described = counts === null ? '' : `: ${describeCounts(counts)}`
      await session.print(
        isOnce ? { ...counts } : { event: 'stopped', ...counts },
        () => `${isOnce ? 'Done' : 'Stopped'}${described}\n`,
      )
    } finally {
      endLines()
      await sender.close()
      await store.close()
    }
  },
})

/** Returns `null` if the database has become unreachable in the meantime. */
async function deliverAll(
  loops: readonly DeliveryLoop[],
  isOnce: boolean,
  timeoutMs: number | undefined,
  session: Session,
): Promise<DeliveryCounts | null> {
  const { stopping, end } = listenForSignals(session.terminal)
  const signalled = once(stopping.signal, 'abort')
  const stopAll = () => Promise.all(loops.map((loop) => loop.stop({ timeoutMs })))
  try {
    if (isOnce) {
      void signalled.then(stopAll)
      return await addCounts(loops.map((loop) => loop.runOnce()))
    }
    // Do this first. If we can't write to the output, nothing has been started yet.
    await session.print({ event: 'started' }, () => 'Delivering. Ctrl-C or SIGTERM stops.\n')
    for (const loop of loops) loop.start()
    await signalled
    await stopAll()
    return await addCounts(loops.map(async (loop) => (await loop.stats()).attempts)).catch(() => null)
  } finally {
    end()
  }
}

function describeCounts({ delivered, retried, failed }: DeliveryCounts): string {
  return `${formatCount(delivered)} delivered, ${formatCount(retried)} to be retried, ${formatCount(failed)} failed`
}

/** Adds up all loops' counts. If a shard is down, its error is thrown once the other loops have ended. */
async function addCounts(counts: readonly Promise<DeliveryCounts>[]): Promise<DeliveryCounts> {
  await Promise.allSettled(counts)
  return sumOf(await Promise.all(counts))
}

/** Deliveries wait if a key is missing. Warn at startup so you don't have to find out from a subscriber. */
async function warnOfSecrets(url: string, secretKeys: readonly string[], logger: Logger): Promise<void> {
  const stored = await withInspector(url, (inspector) => inspector.secrets(SECRETS_CHECKED_MAX))
  const { unopened } = judgeSecrets(stored, secretKeys)
  if (unopened === 0) return
  logger.warn({ unopened }, 'Cannot open signing secrets with the keys of BUSINESS_API_SECRET_KEYS')
}

// --- Human-readable output ---

/** Writing to a terminal is blocking. More lines than this would slow down deliveries, and no one reads that fast. */
const LINES_PER_SECOND = 50
const SECOND_MS = 1000

const REFUSED_ADVICE = `${DESTINATION_REFUSED}: for development, --allow-private-networks and --allow-http allow more destinations`

/**
 * Writes one line per attempt in this process, with its time, response, duration, type, delivery and organization.
 * Anything beyond {@link LINES_PER_SECOND} is only counted.
 *
 * @returns a function that stops writing
 */
function writeAttempts(stdout: Output): () => void {
  const startedAt = new WeakMap<object, number>()
  let second = 0
  let written = 0
  let unwritten = 0
  let hasAdvised = false

  function writeLine(line: string): void {
    stdout.write(`${visible(line)}\n`)
  }

  function writeUnwritten(): void {
    if (unwritten > 0) writeLine(`… and ${formatCount(unwritten)} more`)
    written = 0
    unwritten = 0
  }

  function writeAttempt(attempt: AttemptTrace): void {
    const now = Math.floor(performance.now() / SECOND_MS)
    if (now !== second) writeUnwritten()
    second = now
    if (written >= LINES_PER_SECOND) {
      unwritten++
      return
    }
    written++
    writeLine(describeAttempt(attempt, performance.now() - (startedAt.get(attempt) ?? performance.now())))
    if (attempt.error !== DESTINATION_REFUSED || hasAdvised) return
    hasAdvised = true
    writeLine(REFUSED_ADVICE)
  }

  const ignore = (): void => {}
  const subscribers = {
    start: (attempt: AttemptTrace) => void startedAt.set(attempt, performance.now()),
    end: ignore,
    asyncStart: ignore,
    asyncEnd: writeAttempt,
    error: ignore,
  }
  channels.attempt.subscribe(subscribers)
  return () => {
    channels.attempt.unsubscribe(subscribers)
    writeUnwritten()
  }
}

/** Returns something like `09:00:01Z  failed: 503  34 ms  invoice.paid  dlv_01K…  org_42  attempt 2`. */
function describeAttempt(attempt: AttemptTrace, durationMs: number): string {
  const { status = null, error, type, deliveryId, organizationId, attempt: number } = attempt
  const isDelivered = status !== null && status >= 200 && status < 300
  const answer = String(status ?? error ?? 'no answer')
  const parts = [
    formatNow(),
    isDelivered ? answer : `failed: ${answer}`,
    formatDuration(durationMs),
    type,
    deliveryId,
    organizationId,
    ...(number > 1 ? [`attempt ${number}`] : []),
  ]
  return parts.join('  ')
}

// --- JSON output ---

/**
 * Creates a logger that writes warnings and errors as JSON lines. Library options are translated to flags and
 * variables, and stack traces are omitted.
 */
function createJsonLog(stderr: Output): Logger {
  const writeLine =
    (level: 'warn' | 'error'): LogLine =>
    (details, message) => {
      const line = { time: new Date().toISOString(), level, message, ...details }
      stderr.write(`${visibleJson(JSON.stringify(line, toPlain))}\n`)
    }
  return { ...mutedLogger, warn: writeLine('warn'), error: writeLine('error') }
}

function toPlain(name: string, value: unknown): unknown {
  if (name === 'stack') return undefined
  return typeof value === 'string' ? inFlags(value) : value
}
