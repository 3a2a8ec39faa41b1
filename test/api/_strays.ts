/** Collects uncaught errors, which would have crashed the host's process. */
export function watchStrays(): unknown[] {
  const strays: unknown[] = []
  process.on('unhandledRejection', (reason) => strays.push(reason))
  process.on('uncaughtException', (error) => strays.push(error))
  return strays
}

/**
 * Waits for everything that is already due. An unhandled rejection is only reported in the next turn of the event loop.
 */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}
