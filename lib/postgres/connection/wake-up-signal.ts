import { sleep, withDeadline } from '../../base/time.ts'
import type { Connection } from './connection.ts'
import type { Servers } from './servers.ts'

/** Tells delivery loops that something may have become due: at once in this process, soon in others. */
export interface WakeUpSignal {
  /** Deliveries have been committed. Costs nothing that anybody waits for. */
  signal(): void
  /** @returns ends it */
  watch(onDue: () => void): () => void
  close(): void
}

const CHANNEL = 'business_api_deliveries'

/**
 * Other processes are notified by NOTIFY, never inside a writing transaction, where NOTIFY serializes the commits of the
 * whole database. Many signals make one notification; none is sent while this process has a loop of its own, which takes
 * the work itself. A lost notification costs no more than the time until the loop's next poll.
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
        // The failure of a watcher is no failure of the publisher.
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

/** Between two notifications: far below what anybody notices, and 100 a second at most. */
const QUIET_MS = 10

/** Runs `work` at once, and never again before it has ended and been quiet for a while, however often it is called. */
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

/** LISTEN is said again so often: it shows that the connection lives, and on a new one it is what makes it listen. */
const LISTEN_EVERY_MS = 15_000
const LISTEN_TIMEOUT_MS = 5000
const REOPEN_AFTER_MS = 1000

/** Keeps a connection listening, whatever becomes of it, until it is ended. */
function listen(open: Servers['open'], onNotify: () => void): { end(): void } {
  const ending = new AbortController()
  let wakeUp = (): void => {}

  async function pause(ms: number): Promise<void> {
    // Ended while LISTEN was under way: no further call ends the wait.
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
    // LISTEN in a silent network would keep the process alive until its time is over.
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
      // Whatever has failed, a new connection is the remedy; the loop's poll covers the time until then.
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
