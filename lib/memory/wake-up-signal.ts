/** Tells delivery loops that something may have become due. */
export interface WakeUpSignal {
  /** Deliveries have been recorded: watchers hear of it when the verb that says so has ended. */
  signal(): void
  /** @returns ends it */
  watch(onDue: () => void): () => void
}

/** A signal that nobody watches yet. */
export function createWakeUpSignal(): WakeUpSignal {
  const watchers = new Set<() => void>()
  let isAnnounced = false

  function tellAll(): void {
    isAnnounced = false
    for (const watcher of watchers) tell(watcher)
  }

  return {
    signal() {
      // Not within the verb: a watcher may call the next one, and a verb runs to its end before another begins.
      if (!isAnnounced) queueMicrotask(tellAll)
      isAnnounced = true
    },
    watch(onDue) {
      // The same function may watch twice, and ends one of the two then.
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
    // It is not the other watchers' business, nor that of the verb, which has ended.
  }
}
