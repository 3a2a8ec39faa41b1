import { codeOf, Failure } from './failure.ts'
import type { Output } from './terminal.ts'

/**
 * Writes a result. It's not a failure if the reader stops early (e.g. `| head`), because the work is done.
 *
 * @returns `false` if the reader is gone
 * @throws {@link Failure} if writing fails for any other reason, such as a full disk
 */
export async function writeResult(stdout: Output, text: string): Promise<boolean> {
  const error = await write(stdout, text)
  if (error !== null && !isReaderGone(error)) throw new Failure(`Cannot write the result: ${error.message}`)
  return error === null
}

/**
 * Writes a secret that is only shown once, so it's a failure if the reader is gone.
 *
 * @param advice what to do if the secret is lost, including the new record's id
 * @throws {@link Failure} if the secret couldn't be written
 */
export async function writeOnce(stdout: Output, text: string, advice: string): Promise<void> {
  const error = await write(stdout, text)
  if (error === null) return
  const reason = isReaderGone(error) ? 'its reader has exited' : error.message
  throw new Failure(`Cannot write the secret that is shown only once: ${reason}; ${advice}`)
}

/** Resolves with `null` once the text is written, or with the error if that failed. */
function write(stdout: Output, text: string): Promise<Error | null> {
  return new Promise((resolve) => stdout.write(text, (error) => resolve(error ?? null)))
}

/** The first write fails with the first code, and subsequent writes with the second. */
const READER_GONE = ['EPIPE', 'ERR_STREAM_DESTROYED']

function isReaderGone(error: Error): boolean {
  return READER_GONE.includes(codeOf(error))
}
