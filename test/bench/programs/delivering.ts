import type { Job } from './signed-post.ts'

// A program that delivers: publishes the jobs of a message, and delivers after the message `deliver` until the parent ends it.

/** The work of a deliverer. */
/** With which the endpoints' secrets are sealed, as in a host, so that their decryption is measured. */
export const SECRET_KEYS: readonly string[] = [
  Buffer.from('a benchmark, so not a secret key').toString('base64'),
]

export interface Deliverer {
  publish(jobs: readonly Job[]): Promise<void>
  deliver(): Promise<void>
}

/** Does the work that the parent asks for. */
export function serveParent({ publish, deliver }: Deliverer): void {
  process.on('message', (message: { readonly jobs?: readonly Job[] }) => {
    const work = message.jobs === undefined ? deliver() : publish(message.jobs)
    work.then(
      () => process.send?.({ done: true }),
      (error: Error) => process.send?.({ error: error.message }),
    )
  })
  process.on('disconnect', () => process.exit())
  process.send?.({ ready: true })
}
