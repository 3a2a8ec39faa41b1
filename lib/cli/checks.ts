import type { RetentionState } from '../postgres/retention.ts'
import type { SchemaDrift } from '../postgres/schema/catalogue.ts'
import type {
  DaysState,
  EndedLeases,
  ServerState,
  ShardState,
  StoredSecrets,
} from '../postgres/schema/inspector.ts'
import {
  describeGap,
  describeRenamed,
  gapOf,
  RENAMED_ADVICE,
  type SchemaState,
} from '../postgres/schema/migrations.ts'
import { findServerFault } from '../postgres/schema/server-fault.ts'
import type { Service } from '../service.ts'
import { describeInstallation, holdOf, type Installation, MOVED_ADVICE } from '../webhooks/installation.ts'
import type { QueueCounts } from '../webhooks/queue-counts.ts'
import { describePending } from './database.ts'
import { formatDuration } from './durations.ts'
import { formatBounded, formatCount } from './progress.ts'
import { judgeSecrets } from './sealing.ts'

/** A `doctor` finding. */
export interface Check {
  /** A stable name that programs can rely on. */
  readonly name: string
  /** `warn` means it works for now, but not well or not for much longer. */
  readonly level: 'ok' | 'warn' | 'fail'
  readonly message: string
  /** The affected objects. */
  readonly details?: readonly string[]
  readonly advice?: string
}

type Finding = Omit<Check, 'name'>

/** Checks that the server and database are compatible with the schema. */
export function checkVersion(server: ServerState): Check {
  const fault = findServerFault(server)
  return fault === null
    ? { name: 'version', level: 'ok', message: `PostgreSQL ${server.version}` }
    : { name: 'version', level: 'fail', ...fault }
}

const CLOCK_WARN_MS = 2000
/** Maximum clock skew in milliseconds. Well below the 5 minutes after which subscribers reject signatures. */
const CLOCK_FAIL_MS = 60_000

/** Compares the database's clock with this machine's. Signatures, leases and expiries use the database's clock. */
export function checkClock({ clockAheadMs, clockErrorMs }: ServerState): Check {
  const difference = Math.max(0, Math.abs(clockAheadMs) - clockErrorMs)
  const direction = clockAheadMs > 0 ? 'ahead of' : 'behind'
  const message = `the database's clock is ${formatDuration(Math.abs(clockAheadMs))} ${direction} this machine's`
  if (difference < CLOCK_WARN_MS) return { name: 'clock', level: 'ok', message }
  return {
    name: 'clock',
    level: difference < CLOCK_FAIL_MS ? 'warn' : 'fail',
    message,
    advice:
      'find the wrong clock, and synchronize both clocks with NTP; subscribers reject signatures that are 5 minutes off',
  }
}

/** Checks that the schema matches this version. */
export function checkMigrations(schema: SchemaState): Finding {
  const { current, latest, pending, newer, renamed } = schema
  const [first] = renamed
  if (first) return { level: 'fail', message: describeRenamed(first), advice: RENAMED_ADVICE }
  const gap = gapOf(schema)
  if (gap.length > 0) return { level: 'fail', message: describeGap(gap), advice: GAP_ADVICE }
  if (newer.length > 0) {
    const isBreaking = newer.some(({ breaking }) => breaking)
    return {
      level: isBreaking ? 'fail' : 'warn',
      message: `a newer version has migrated the database to ${current}; this one knows ${latest}`,
      details: newer.map(({ name }) => name),
      advice: 'install the newer version of business-api-kit here too',
    }
  }
  if (pending.length === 0) return { level: 'ok', message: `all ${latest} are applied` }
  return { level: 'fail', message: describePending(schema), advice: 'run: business-api-kit migrate' }
}

const GAP_ADVICE =
  'do not migrate: where the objects of the missing migrations exist (business-api-kit migrate --print, without a database), restore the rows of these migrations, else restore a backup'

/** Checks that the schema wasn't modified outside of the migrations. */
export function checkSchema(drift: SchemaDrift | null): Finding {
  if (drift === null) {
    return {
      level: 'warn',
      message: 'cannot be checked, because this version does not know the expected schema',
    }
  }
  const { missing, changed, added } = drift
  const details = [
    ...missing.map((name) => `${name} is missing`),
    ...changed.map((name) => `${name} differs from the migrations`),
    ...added.map((name) => `${name} was created by no migration`),
  ]
  if (details.length === 0) return { level: 'ok', message: 'matches the migrations' }
  if (missing.length + changed.length === 0) {
    return {
      level: 'warn',
      message: 'has objects that no migration created',
      details,
      advice: 'keep your own objects in another schema: an index can mislead the plans of deliveries',
    }
  }
  return {
    level: 'fail',
    message: 'was changed outside the migrations',
    details,
    advice:
      'undo the change; business-api-kit migrate --print, without a database, shows the definition of each object',
  }
}

/** Running loops reclaim an expired lease within a second. */
const LEASE_FAIL_MS = 60_000

/** Checks for expired leases that no running process has reclaimed. */
export function checkLeases({ count, oldestMs }: EndedLeases): Finding {
  if (oldestMs < LEASE_FAIL_MS) return { level: 'ok', message: 'none is stuck' }
  return {
    level: 'fail',
    message: `${formatCount(count)} ended up to ${formatDuration(oldestMs)} ago, and no process has taken over`,
    advice: 'start a delivery loop: business-api-kit deliver',
  }
}

const BACKLOG_WARN_MS = 60_000
const BACKLOG_FAIL_MS = 15 * 60_000

/** Checks that due deliveries don't have to wait too long. */
export function checkBacklog({ due, oldestDueMs }: Pick<QueueCounts, 'due' | 'oldestDueMs'>): Finding {
  if (due === 0) return { level: 'ok', message: 'nothing is due' }
  const message = `${formatBounded(due)} due, the oldest for ${formatDuration(oldestDueMs)}`
  if (oldestDueMs < BACKLOG_WARN_MS) return { level: 'ok', message }
  return {
    level: oldestDueMs < BACKLOG_FAIL_MS ? 'warn' : 'fail',
    message,
    advice: 'run a delivery loop (business-api-kit deliver), and more loops if one is not enough',
  }
}

const DAYS_WARN_MS = 24 * 60 * 60_000

/** Checks that tables for today's and tomorrow's events exist, and that no day's table or row is missing. */
export function checkDays({ aheadMs, unlisted, incomplete }: DaysState): Finding {
  if (unlisted.length > 0) {
    return {
      level: 'fail',
      message:
        'event_days lacks the rows of some days, or has other bounds than the tables: these days are not dropped in time, and the logs omit them',
      details: unlisted,
      advice:
        'restore the rows, as the owner of the schema: ' +
        'select business_api.make_day(name, begins_at, ends_at) from business_api.unlisted_days()',
    }
  }
  if (incomplete.length > 0) {
    return {
      level: 'fail',
      message:
        'tables of some days are gone or detached: on these days nothing can be published, or deliveries stay pending',
      details: incomplete,
      advice:
        'restore the tables from a backup, or make empty ones and attach detached ones, as the owner of the schema: ' +
        `select business_api.make_day(name, begins_at, ends_at) from business_api.event_days where name = '${incomplete[0]}'`,
    }
  }
  const advice =
    'run a delivery loop (business-api-kit deliver), at least once in five days: a loop makes the days'
  if (aheadMs <= 0) {
    return {
      level: 'warn',
      message: 'there are no tables for the events of today: the next publisher makes them',
      advice,
    }
  }
  const message = `there are tables for the events of the next ${formatDuration(aheadMs)}`
  return aheadMs < DAYS_WARN_MS ? { level: 'warn', message, advice } : { level: 'ok', message }
}

const LAG_WARN_MS = 60 * 60_000
const LAG_FAIL_MS = 24 * 60 * 60_000

/** Checks that purging keeps up with old events. */
export function checkRetention({ retentionMs, purgedAgoMs, lagMs }: RetentionState): Finding {
  if (lagMs === null) return { level: 'warn', message: 'the state of the purge is unknown' }
  if (retentionMs === null) return { level: 'ok', message: 'events are kept forever' }
  const kept = formatDuration(retentionMs)
  const last = purgedAgoMs === null ? 'never ran' : `last succeeded ${formatDuration(purgedAgoMs)} ago`
  if (lagMs < LAG_WARN_MS) {
    return { level: 'ok', message: `events are kept for ${kept}; the purge ${last}` }
  }
  return {
    level: lagMs < LAG_FAIL_MS ? 'warn' : 'fail',
    message: `events are kept for ${kept}, and the purge is ${formatDuration(lagMs)} late; the purge ${last}`,
    advice: `run a delivery loop (business-api-kit deliver), and read its log for failed purges; by hand: business-api-kit purge --older-than ${wholeSeconds(retentionMs)}`,
  }
}

/** Formats a duration in a way that the `purge` command can parse. */
function wholeSeconds(ms: number): string {
  const days = ms / 86_400_000
  return Number.isInteger(days) ? `${days}d` : `${Math.ceil(ms / 1000)}s`
}

/** Checks that the database belongs to this installation. @param own this installation's name, if it has one */
export function checkInstallation(found: Installation | null, own: string | undefined): Finding {
  const hold = found && holdOf(found, own ?? null)
  if (hold !== null) {
    const level = own === undefined ? 'warn' : 'fail'
    return { level, message: `${hold.reason}: loops wait`, advice: hold.advice }
  }
  const message = `the database ${describeInstallation(found)}`
  const isHint = found?.name === null && found.isMoved
  return isHint ? { level: 'warn', message, advice: MOVED_ADVICE } : { level: 'ok', message }
}

const SERVICE_ADVICE =
  "give every process and the command line the same 'service': --service, or BUSINESS_API_SERVICE"

/**
 * Checks that imported keys work, and that at least some active keys have the service's prefix (older keys may have a
 * different one).
 *
 * @param counts the number of active keys by prefix. Imported keys have an empty prefix
 */
export function checkKeyPrefix(
  { '': imported = 0, ...keys }: Readonly<Record<string, number>>,
  { keyPrefix, importedKeys }: Service,
): Finding {
  if (imported > 0 && importedKeys === undefined) {
    const message = `active imported keys: ${formatCount(imported)}, which get 401 because the service has no importedKeys`
    return { level: 'warn', message, advice: SERVICE_ADVICE }
  }
  const own = `${keyPrefix}_live_`
  const others = Object.entries(keys).filter(([prefix]) => prefix !== own)
  const counts = others.map(([prefix, count]) => `${formatCount(count)} with ${prefix}`).join(', ')
  if (others.length === 0 || own in keys) {
    return {
      level: 'ok',
      message: `new API keys begin with ${own}${counts && `; in force besides: ${counts}`}`,
    }
  }
  const message = `new API keys begin with ${own}, but no active key does: ${counts}`
  return { level: 'warn', message, advice: SERVICE_ADVICE }
}

/** Checks that the OpenAPI document at the service's URL has the service's names. */
export async function checkDocument({ baseUrl, headerPrefix, keyPrefix, name }: Service): Promise<Finding> {
  const url = `${baseUrl}/openapi.json`
  const response = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(DOCUMENT_MS) }).catch(
    () => null,
  )
  if (!response?.ok) {
    const message = `${url} ${response === null ? 'cannot be reached from here' : `answers ${response.status}`}`
    return {
      level: 'warn',
      message,
      advice: "see that the API runs, and that 'baseUrl' of the service is its address",
    }
  }
  const text = await response.text()
  const quoted = (part: string | undefined) => ({ part, found: JSON.stringify(part) })
  const missing = [
    quoted(baseUrl),
    quoted(`${headerPrefix}-Signature`),
    { part: `${keyPrefix}_live_`, found: `Bearer ${keyPrefix}_live_` },
    quoted(name),
  ].flatMap(({ part, found }) => (part === undefined || text.includes(found) ? [] : [part]))
  if (missing.length === 0) return { level: 'ok', message: `${url} has the names of the service` }
  return {
    level: 'fail',
    message: `${url} belongs to another service: it has no ${missing.join(', no ')}`,
    advice: SERVICE_ADVICE,
  }
}

/** Timeout for fetching the document, in milliseconds. */
const DOCUMENT_MS = 5000

const UNSEALED_ADVICE =
  'set BUSINESS_API_SECRET_KEYS, and run: business-api-kit endpoints reseal --allow-plaintext-secrets'
const RESEAL_ADVICE = 'run: business-api-kit endpoints reseal --allow-plaintext-secrets'

/** Checks that the given keys can open the signing secrets. */
export function checkSecrets(stored: readonly StoredSecrets[], secretKeys: readonly string[]): Finding {
  const { total, unopened, open } = judgeSecrets(stored, secretKeys)
  if (unopened > 0) {
    return {
      level: 'fail',
      message: `${formatCount(unopened)} of ${formatCount(total)} cannot be opened: their deliveries stay pending`,
      advice: 'give all sealing keys in BUSINESS_API_SECRET_KEYS, here and where events are delivered',
    }
  }
  if (open > 0) {
    const message = `${formatCount(open)} of ${formatCount(total)} are stored unsealed`
    return secretKeys.length === 0
      ? { level: 'warn', message, advice: UNSEALED_ADVICE }
      : {
          level: 'fail',
          message: `${message} although there are keys: their deliveries stay pending`,
          advice: RESEAL_ADVICE,
        }
  }
  if (secretKeys.length > 0) return { level: 'ok', message: `all ${formatCount(total)} can be opened` }
  return {
    level: 'warn',
    message: 'there is no sealing key',
    advice: 'set BUSINESS_API_SECRET_KEYS to a key (openssl rand -base64 32) before endpoints are registered',
  }
}

/**
 * Checks that a database is the named shard, and that every organization is where the shard map puts it.
 *
 * @param given the names in DATABASE_URLS
 */
export function checkShard(
  { name, used, moving, left, foreign }: ShardState,
  shard: string,
  given: readonly string[],
): Finding {
  if (name === null) {
    const advice = `run: business-api-kit shards add ${shard}; in a new installation, the first process adds all shards`
    return { level: 'warn', message: 'the database is not a shard yet', advice }
  }
  const missing = used.filter((each) => !given.includes(each))
  if (name !== shard || missing.length > 0) {
    const message =
      name === shard ? `DATABASE_URLS lacks ${missing.join(', ')}` : `the database is the shard ${name}`
    return { level: 'fail', message, advice: 'give the connection string of every shard under its own name' }
  }
  if (moving + left + foreign === 0) return { level: 'ok', message: 'every organization is on its shard' }
  const counts = [
    `${formatCount(moving)} between two shards`,
    `${formatCount(left)} with rows left behind`,
    `${formatCount(foreign)} of other shards`,
  ]
  return {
    level: foreign > 0 ? 'fail' : 'warn',
    message: `organizations are on the wrong shard: ${counts.join(', ')}`,
    advice:
      'finish each move with the same business-api-kit organizations move, and give every process all shards',
  }
}
