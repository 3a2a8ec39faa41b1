// The library's only sleep and only deadline.

/**
 * Waits for a time.
 *
 * @param ms milliseconds
 * @param options.keepsAlive true if the process stays alive for the wait. Default true
 */
export function sleep(ms: number, { keepsAlive = true }: { keepsAlive?: boolean } = {}): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    if (!keepsAlive) timer.unref()
  })
}

/**
 * Settles as the work does, or as `onLate` does when the work has not settled within a time. Late work is not stopped.
 *
 * @param ms milliseconds; with 0 or less only work that has settled already counts
 * @param onLate returns an answer in place of the late answer, or throws
 */
export async function withDeadline<T, Late>(
  work: PromiseLike<T>,
  ms: number,
  onLate: () => Late,
): Promise<T | Late> {
  const late = Symbol('late')
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<typeof late>((resolve) => {
    timer = setTimeout(resolve, ms, late)
  })
  try {
    const first = await Promise.race([work, deadline])
    return first === late ? onLate() : first
  } finally {
    clearTimeout(timer)
  }
}
