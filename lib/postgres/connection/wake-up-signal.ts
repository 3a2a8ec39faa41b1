import { sleep, withDeadline } from '../../base/time.ts'
import type { DeliveryWatch } from '../../webhooks/claims.ts'
import type { Connection } from './connection.ts'
import type { Servers } from './servers.ts'

/** Wakes delivery loops when deliveries may have become due: at once in this process, soon in other processes. */
export interface WakeUpSignal {
  /** Reports that due deliveries were committed. Returns at once. */
  signal(): void
  /** Calls `onDue` with each signal. */
  watch(onDue: () => void): DeliveryWatch
  close(): void
}

/** The channel, named in sql/35-publishing.sql too. */
const CHANNEL = 'business_api_deliveries'

/**
 * Creates the signal. NOTIFY reaches other processes. Many signals make one notification. A process with a loop of its own sends
 * no notification, because that loop takes the work. A lost notification only delays deliveries until the loop's next poll.
 *
 * A writing transaction sends a notification itself only while a loop is idle (`insert_events` in sql/35-publishing.sql), because
 * NOTIFY serializes the commits of the whole database.
 *
 * @param notify sends a notification on a channel
 * @param open opens the connection that listens; null without sessions, behind a pooler in transaction mode
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
        // A watcher's failure must not fail the publisher.
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

/** Minimum interval between notifications, in ms: up to 100 per second, without a noticeable delay. */
const QUIET_MS = 10

/** Returns a function that runs `work` at once, or once more after the run under way and a pause, however often called. */
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

/** Interval between LISTEN statements on a connection, in ms: repeated to prove that the connection is alive. */
const LISTEN_EVERY_MS = 15_000
const LISTEN_TIMEOUT_MS = 5000
const REOPEN_AFTER_MS = 1000

/**
 * Takes the lock of an idle loop. A transaction that has recorded deliveries without a notification shares the lock until its commit,
 * so a loop that gets the lock has no such transaction to wait for. One of several loops holds the lock, and the notifications reach
 * all. Not with prepared transactions, which must not contain NOTIFY. The server ends the session of a process that was stopped:
 * until then the commits of all publishers are serialized.
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

/** A connection that listens. */
interface Listening extends Pick<DeliveryWatch, 'setIdle'> {
  end(): void
}

/** Keeps one connection listening, and replaces the connection after any failure, until `end` is called. */
function listen(open: Servers['open'], onNotify: () => void): Listening {
  const ending = new AbortController()
  let wakeUp = (): void => {}
  let current: Connection | undefined
  /** The connection that holds the lock of an idle loop. */
  let holder: Connection | undefined

  /** Sends a statement of the listening connection. */
  function ask({ sql }: Connection, statement: string) {
    return withDeadline(sql.unsafe(statement), LISTEN_TIMEOUT_MS, () => {
      throw new Error('No response')
    })
  }

  async function pause(ms: number): Promise<void> {
    // `end` was called during LISTEN, and would not be called again to end this pause.
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
    // LISTEN on a silent network would otherwise keep the process alive until the timeout.
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
      // A new connection is the remedy for every failure; until then the loop's poll finds due deliveries.
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
