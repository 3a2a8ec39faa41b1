// The library's only sleep and deadline functions.

/**
 * Waits for the given number of milliseconds.
 *
 * @param options.keepsAlive if `true`, the timer keeps the process alive. Defaults to `true`
 */
export function sleep(ms: number, { keepsAlive = true }: { keepsAlive?: boolean } = {}): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    if (!keepsAlive) timer.unref()
  })
}

/**
 * Resolves or rejects like `work`, or like `onLate` if `work` doesn't settle in time. We can't stop late work.
 *
 * @param ms timeout in milliseconds. If it's 0 or less, only work that has already settled is in time
 * @param onLate returns a fallback value or throws
 */
export function withDeadline<T, Late>(
  work: PromiseLike<T>,
  ms: number,
  onLate: () => Late | PromiseLike<Late>,
): Promise<T | Late> {
  // We don't use Promise.race() because it creates several promises, and every request has a deadline or two.
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
