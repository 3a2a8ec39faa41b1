/** Tells delivery loops that something may have become due. */
export interface WakeUpSignal {
  /** Announces recorded deliveries: watchers are called after the calling verb has ended. */
  signal(): void
  /** Calls a function at each signal. @returns a function that ends the watch */
  watch(onDue: () => void): () => void
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
      // After the verb: a watcher may call the next verb, and every verb runs to its end before another begins.
      if (!isAnnounced) queueMicrotask(tellAll)
      isAnnounced = true
    },
    watch(onDue) {
      // The same function may watch twice, and ends one of the two watches then.
      const watcher = (): void => onDue()
      watchers.add(watcher)
      return () => watchers.delete(watcher)
    },
  }
}

function tell(onDue: () => void): void {
  try {
    onDue()
  } catch {
    // A failing watcher must not disturb the other watchers or the verb, which has ended.
  }
}
