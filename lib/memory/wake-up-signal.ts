import type { DeliveryWatch } from '../webhooks/claims.ts'

/** Wakes up delivery loops when deliveries may be due. */
export interface WakeUpSignal {
  /** Announces new deliveries. Watchers are called after the current method has finished. */
  signal(): void
  /** Calls a function on every signal. */
  watch(onDue: () => void): DeliveryWatch
}

/** Creates a signal with no watchers. */
export function createWakeUpSignal(): WakeUpSignal {
  const watchers = new Set<() => void>()
  let isAnnounced = false

  function tellAll(): void {
    isAnnounced = false
    for (const watcher of watchers) tell(watcher)
  }

  return {
    signal() {
      // Wait for the current method to end, because a watcher may call another method, and methods must not overlap.
      if (!isAnnounced) queueMicrotask(tellAll)
      isAnnounced = true
    },
    watch(onDue) {
      // Wrap the function, because the same `onDue` may be passed twice and each watch ends separately.
      const watcher = (): void => onDue()
      watchers.add(watcher)
      // This process makes all the writes, and each one sends a signal.
      return { setIdle: async () => true, end: () => watchers.delete(watcher) }
    },
  }
}

function tell(onDue: () => void): void {
  try {
    onDue()
  } catch {
    // One failing watcher must not affect the others.
  }
}
