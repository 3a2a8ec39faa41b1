import { sleep, withDeadline } from '../../base/time.ts'
import type { Connection } from './connection.ts'
import type { Servers } from './servers.ts'

/** Wakes delivery loops when deliveries may have become due: at once in this process, soon in other processes. */
export interface WakeUpSignal {
  /** Reports that due deliveries were committed. Returns at once. */
  signal(): void
  /** Calls `onDue` with each signal. @returns a function that ends the watch */
  watch(onDue: () => void): () => void
  close(): void
}

const CHANNEL = 'business_api_deliveries'

/**
 * Creates the signal. NOTIFY reaches other processes, never inside a writing transaction, where NOTIFY serializes the commits
 * of the whole database. Many signals make one notification. A process with a loop of its own sends no notification, because
 * that loop takes the work. A lost notification only delays deliveries until the loop's next poll.
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
  let listening: { end(): void } | undefined

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
      return () => {
        watchers.delete(watcher)
        if (watchers.size === 0) endListening()
      }
    },
    close: endListening,
  }
}

/** Milliseconds between two notifications: at most 100 notifications a second, and no noticeable delay. */
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

/** Milliseconds between two LISTEN statements on a connection: repeated as proof that the connection is alive. */
const LISTEN_EVERY_MS = 15_000
const LISTEN_TIMEOUT_MS = 5000
const REOPEN_AFTER_MS = 1000

/** Keeps one connection listening, and replaces the connection after any failure, until `end` is called. */
function listen(open: Servers['open'], onNotify: () => void): { end(): void } {
  const ending = new AbortController()
  let wakeUp = (): void => {}

  async function pause(ms: number): Promise<void> {
    // `end` was called during LISTEN, and would not be called again to end this pause.
    if (ending.signal.aborted) return
    const woken = new Promise<void>((resolve) => {
      wakeUp = resolve
    })
    await withDeadline(woken, ms, () => {})
  }

  async function keepListening({ sql }: Connection): Promise<void> {
    while (!ending.signal.aborted) {
      await withDeadline(sql.unsafe(`listen ${CHANNEL}`), LISTEN_TIMEOUT_MS, () => {
        throw new Error('No answer')
      })
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
    end() {
      ending.abort()
      wakeUp()
    },
  }
}
