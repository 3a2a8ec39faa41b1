import { sleep, withDeadline } from '../../base/time.ts'
import type { DeliveryWatch } from '../../webhooks/claims.ts'
import type { Connection } from './connection.ts'
import type { Servers } from './servers.ts'

/** Wakes up delivery loops when deliveries may be due, immediately in this process and slightly later in others. */
export interface WakeUpSignal {
  /** Signals that due deliveries were committed. Returns immediately. */
  signal(): void
  /** Calls `onDue` for each signal. */
  watch(onDue: () => void): DeliveryWatch
  close(): void
}

/** Channel name, shared with sql/35-publishing.sql. */
const CHANNEL = 'business_api_deliveries'

/**
 * Creates the signal. Other processes are reached with NOTIFY, with frequent signals coalesced into one notification.
 * If this process runs a loop, other processes aren't notified because that loop will do the work. A lost notification
 * is harmless, since the loop's next poll finds the deliveries.
 *
 * Transactions send notifications themselves only while a loop is idle (see `insert_events` in sql/35-publishing.sql),
 * because NOTIFY serializes all commits of the database.
 *
 * @param notify sends a notification on a channel
 * @param open opens the listening connection. `null` without sessions, i.e. behind a pooler in transaction mode
 */
export function createWakeUpSignal(
  notify: (channel: string) => Promise<unknown>,
  open: Servers['open'] | null,
): WakeUpSignal {
  const watchers = new Set<() => void>()
  const signalOthers = createCoalesced(() => notify(CHANNEL))
  let listening: Listening | undefined

  function tellWatchers(): void {
    for (const onDue of watchers) {
      try {
        onDue()
      } catch {
        // A failing watcher must not fail the publisher.
      }
    }
  }

  function endListening(): void {
    listening?.end()
    listening = undefined
  }

  return {
    signal() {
      if (watchers.size === 0) signalOthers()
      else tellWatchers()
    },
    watch(onDue) {
      const watcher = (): void => onDue()
      watchers.add(watcher)
      if (open) listening ??= listen(open, tellWatchers)
      return {
        setIdle: async (isIdle) => (await listening?.setIdle(isIdle)) ?? false,
        end() {
          watchers.delete(watcher)
          if (watchers.size === 0) endListening()
        },
      }
    },
    close: endListening,
  }
}

/** Minimum interval between notifications in ms, short enough to go unnoticed. */
const QUIET_MS = 10

/** Returns a function that runs `work` immediately. Calls during a run are coalesced into one more run. */
function createCoalesced(work: () => Promise<unknown>): () => void {
  let isBusy = false
  let isWanted = false

  async function run(): Promise<void> {
    isBusy = true
    while (isWanted) {
      isWanted = false
      await work().catch(() => {})
      await sleep(QUIET_MS)
    }
    isBusy = false
  }

  return () => {
    isWanted = true
    if (!isBusy) void run()
  }
}

// --- Listening ---

/** Interval between LISTEN statements, which double as connection checks, in ms. */
const LISTEN_EVERY_MS = 15_000
const LISTEN_TIMEOUT_MS = 5000
const REOPEN_AFTER_MS = 1000

/**
 * Takes the idle lock. A transaction that adds deliveries without a notification shares this lock until it commits, so
 * a loop that gets the lock knows that no such transaction is left. Only one loop holds the lock, but all loops get the
 * notifications. We skip the lock if prepared transactions are enabled, because those can't contain NOTIFY. If a
 * process is suspended, publishers' commits stay serialized until the server ends its session.
 */
const TAKE_IDLE_LOCK = `
  select case
    when current_setting('max_prepared_transactions') <> '0' then 'none'
    when pg_catalog.pg_try_advisory_lock(1768189029) then 'own'
    when exists (
      select from pg_catalog.pg_locks
       where locktype = 'advisory' and classid = 0 and objid = 1768189029 and objsubid = 1 and mode = 'ExclusiveLock' and granted
         and database = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())
    ) then 'other'
    else 'none'
  end as holder, pg_catalog.set_config('idle_session_timeout', '60s', false)`
const RELEASE_IDLE_LOCK = 'select pg_catalog.pg_advisory_unlock(1768189029)'

interface Listening extends Pick<DeliveryWatch, 'setIdle'> {
  end(): void
}

/** Keeps one connection listening until `end` is called, reconnecting after any failure. */
function listen(open: Servers['open'], onNotify: () => void): Listening {
  const ending = new AbortController()
  let wakeUp = (): void => {}
  let current: Connection | undefined
  /** The connection that holds the idle lock. */
  let holder: Connection | undefined

  function ask({ sql }: Connection, statement: string) {
    return withDeadline(sql.unsafe(statement), LISTEN_TIMEOUT_MS, () => {
      throw new Error('No response')
    })
  }

  async function pause(ms: number): Promise<void> {
    // `end` was called during LISTEN, and nothing else would end this pause.
    if (ending.signal.aborted) return
    const woken = new Promise<void>((resolve) => {
      wakeUp = resolve
    })
    await withDeadline(woken, ms, () => {})
  }

  async function keepListening(connection: Connection): Promise<void> {
    while (!ending.signal.aborted) {
      await ask(connection, `listen ${CHANNEL}`)
      current = connection
      // Deliveries may have become due before LISTEN took effect.
      onNotify()
      await pause(LISTEN_EVERY_MS)
    }
  }

  async function listenOnce(): Promise<void> {
    const connection = await open({ onNotify, onClosed: () => wakeUp() }, ending.signal)
    // On a silent network, LISTEN would otherwise keep the process alive until its timeout.
    ending.signal.addEventListener('abort', connection.destroy)
    try {
      await keepListening(connection)
    } finally {
      ending.signal.removeEventListener('abort', connection.destroy)
      connection.destroy()
      current = undefined
    }
  }

  async function run(): Promise<void> {
    while (!ending.signal.aborted) {
      // Just reconnect. Polling finds due deliveries in the meantime.
      await listenOnce().catch(() => {})
      await pause(REOPEN_AFTER_MS)
    }
  }

  void run()
  return {
    async setIdle(isIdle) {
      const connection = current
      const isHeld = connection !== undefined && holder === connection
      if (connection === undefined || isIdle === isHeld) return isHeld
      holder = undefined
      try {
        const [row] = await ask(connection, isIdle ? TAKE_IDLE_LOCK : RELEASE_IDLE_LOCK)
        if (row?.holder === 'own') holder = connection
        return isIdle && row?.holder !== 'none'
      } catch {
        connection.destroy()
        wakeUp()
        return false
      }
    },
    end() {
      ending.abort()
      wakeUp()
    },
  }
}
