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
 * @param onLate returns a value in place of the late one, or throws
 */
export function withDeadline<T, Late>(
  work: PromiseLike<T>,
  ms: number,
  onLate: () => Late | PromiseLike<Late>,
): Promise<T | Late> {
  // Not with Promise.race(), which makes several promises where one is enough: every request waits with a deadline or two.
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      try {
        resolve(onLate())
      } catch (error) {
        reject(error)
      }
    }, ms)
    work.then(
      (result) => {
        clearTimeout(timer)
        resolve(result)
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}
