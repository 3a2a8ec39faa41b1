/** Collects uncaught errors, which would have ended the process of a host. */
export function watchStrays(): unknown[] {
  const strays: unknown[] = []
  process.on('unhandledRejection', (reason) => strays.push(reason))
  process.on('uncaughtException', (error) => strays.push(error))
  return strays
}

/** Lets everything happen that is due already, because an unhandled rejection shows only after a turn of the event loop. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}
