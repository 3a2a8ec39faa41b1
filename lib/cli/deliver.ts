import { constants } from 'node:os'
import type { Logger, LogLine } from '../log.ts'
import { mutedLogger } from '../log.ts'
import { createPostgresStore } from '../postgres/store.ts'
import type { DeliveryCounts } from '../webhooks/courier.ts'
import { createDeliveryLoop, type DeliveryLoop } from '../webhooks/delivery-loop.ts'
import { createWebhookSender } from '../webhooks/sender.ts'
import { type Command, defineCommand } from './command.ts'
import { DESTINATION_FLAGS, headerPrefix } from './common-flags.ts'
import { requireSchema, withInspector } from './database.ts'
import { parseDuration, parseRetention } from './durations.ts'
import { parsed, parseWhole, toggle } from './flags.ts'
import { formatCount } from './progress.ts'
import { readSecretKeys } from './sealing.ts'
import { judgeSecrets, SECRETS_LOOKED_AT } from './sealing-check.ts'
import type { Session } from './session.ts'
import type { Output, Signal, Terminal } from './terminal.ts'

/** The delivery loop as a process. */
export const deliver: Command = defineCommand({
  name: 'deliver',
  summary: 'delivers events until it is told to stop',
  about: `Any number of processes may do it at once. SIGTERM and SIGINT let the attempts in flight end and give the rest back; a
second signal ends it at once, and what was in flight is attempted again when its lease ends.
Warnings and errors are lines of JSON on stderr. Takes the same BUSINESS_API_SECRET_KEYS as endpoints add.`,
  flags: {
    concurrency: parsed('N', 'attempts in flight at once; default: 256', parseWhole),
    retention: parsed(
      'DURATION',
      "how long events, deliveries and attempts are kept, or 'never' to forget none; default: 30d",
      parseRetention,
    ),
    timeout: parsed('DURATION', 'how long a stop waits for attempts in flight; default: 12s', parseDuration),
    once: toggle('deliver what is due now, then end: for a scheduler'),
    markOverdue: toggle('mark the invoices of all organizations overdue that are'),
    pooler: toggle('the database is behind a pooler in transaction mode'),
    headerPrefix,
    ...DESTINATION_FLAGS,
    allowPlaintextSecrets: toggle('accepted, as elsewhere: what was stored unsealed can always be read'),
  },
  examples: [
    { purpose: 'as a service', line: 'business-api deliver' },
    { purpose: 'from cron', line: 'business-api deliver --once' },
    {
      purpose: 'to subscribers on this machine, while developing',
      line: 'business-api deliver --allow-http --allow-private-networks',
    },
  ],
  async run({ concurrency, retention, timeout, once, pooler, ...options }, session) {
    const url = session.databaseUrl()
    const secretKeys = readSecretKeys(session)
    const logger = createLogger(session.terminal.stderr)
    await requireSchema(url)
    await warnOfSecrets(url, secretKeys, logger)

    const store = createPostgresStore(url, { prepare: !pooler })
    const sender = createWebhookSender(options)
    const loop = createDeliveryLoop(store, sender, {
      ...options,
      concurrency,
      retentionMs: retention,
      secretKeys,
      logger,
    })
    try {
      await (once ? deliverOnce(loop, timeout, session) : deliverUntilTold(loop, timeout, session))
    } finally {
      await sender.close()
      await store.close()
    }
  },
})

async function deliverUntilTold(
  loop: DeliveryLoop,
  timeoutMs: number | undefined,
  session: Session,
): Promise<void> {
  const signals = listenForSignals(session.terminal)
  try {
    // First: where it cannot be written nothing has been begun.
    await session.print({ event: 'started' }, () => 'Delivering. Ctrl-C or SIGTERM stops.\n')
    loop.start()
    await signals.first
    await loop.stop({ timeoutMs })
    const counts = await countsOf(loop)
    await session.print(
      { event: 'stopped', ...counts },
      () => `Stopped${counts ? `: ${describeCounts(counts)}` : ''}\n`,
    )
  } finally {
    signals.end()
  }
}

async function deliverOnce(
  loop: DeliveryLoop,
  timeoutMs: number | undefined,
  session: Session,
): Promise<void> {
  const signals = listenForSignals(session.terminal)
  void signals.first.then(() => loop.stop({ timeoutMs }))
  try {
    const counts = await loop.runOnce()
    await session.print(counts, () => `Done: ${describeCounts(counts)}\n`)
  } finally {
    signals.end()
  }
}

function describeCounts({ delivered, retried, deadLettered }: DeliveryCounts): string {
  return `${formatCount(delivered)} delivered, ${formatCount(retried)} to be retried, ${formatCount(deadLettered)} dead-lettered`
}

/** Null where the database, which tells the rest of the statistics, cannot be reached any more. */
function countsOf(loop: DeliveryLoop): Promise<DeliveryCounts | null> {
  return loop.stats().then(
    ({ attempts }) => attempts,
    () => null,
  )
}

// --- Signals ---

/** npm passes a signal on to a process that the terminal has sent it to already: the second one so soon is the same. */
const SAME_SIGNAL_MS = 300

interface StopSignals {
  /** Resolves at the first one; a second one ends the process. */
  readonly first: Promise<void>
  end(): void
}

function listenForSignals({ signals, exit }: Terminal): StopSignals {
  let firstAt: number | undefined
  let tellFirst = (): void => {}
  const first = new Promise<void>((resolve) => {
    tellFirst = resolve
  })
  const listeners = (['SIGINT', 'SIGTERM'] as const).map((signal) => {
    return [signal, () => onSignal(signal)] as const
  })
  function onSignal(signal: Signal): void {
    firstAt ??= performance.now()
    if (performance.now() - firstAt > SAME_SIGNAL_MS) exit(128 + constants.signals[signal])
    tellFirst()
  }
  for (const [signal, listener] of listeners) signals.on(signal, listener)
  return {
    first,
    end() {
      for (const [signal, listener] of listeners) signals.off(signal, listener)
    },
  }
}

// --- Log ---

/** Lines of JSON, without the stack traces that the library's own logger has: an operator has no use for them. */
function createLogger(stderr: Output): Logger {
  const writeLine =
    (level: 'warn' | 'error'): LogLine =>
    (details, message) => {
      const line = { time: new Date().toISOString(), level, message, ...details }
      stderr.write(`${JSON.stringify(line, (name, value) => (name === 'stack' ? undefined : value))}\n`)
    }
  return { ...mutedLogger, warn: writeLine('warn'), error: writeLine('error') }
}

/** Deliveries wait for a key that is missing: better heard of now than when somebody misses them. */
async function warnOfSecrets(url: string, secretKeys: readonly string[], logger: Logger): Promise<void> {
  const stored = await withInspector(url, (inspector) => inspector.secrets(SECRETS_LOOKED_AT))
  const { unopened } = judgeSecrets(stored, secretKeys)
  if (unopened === 0) return
  logger.warn({ unopened }, 'Signing secrets cannot be opened with the keys of BUSINESS_API_SECRET_KEYS')
}
