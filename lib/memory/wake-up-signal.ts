import type { DeliveryWatch } from '../webhooks/claims.ts'

/** Wakes delivery loops when deliveries may have become due. */
export interface WakeUpSignal {
  /** Reports recorded deliveries. Watchers are called after the end of the calling verb. */
  signal(): void
  /** Calls a function at each signal. */
  watch(onDue: () => void): DeliveryWatch
}

/** Creates a signal without watchers. */
export function createWakeUpSignal(): WakeUpSignal {
  const watchers = new Set<() => void>()
  let isAnnounced = false

  function tellAll(): void {
    isAnnounced = false
    for (const watcher of watchers) tell(watcher)
  }

  return {
    signal() {
      // After the verb, because a watcher may call another verb, and no verb may begin before the end of the present verb.
      if (!isAnnounced) queueMicrotask(tellAll)
      isAnnounced = true
    },
    watch(onDue) {
      // A function of its own for each watch: the same `onDue` may watch twice, and each watch is ended separately.
      const watcher = (): void => onDue()
      watchers.add(watcher)
      // Every write is one of this process, and signals.
      return { setIdle: async () => true, end: () => watchers.delete(watcher) }
    },
  }
}

function tell(onDue: () => void): void {
  try {
    onDue()
  } catch {
    // A failing watcher must not disturb the other watchers.
  }
}
