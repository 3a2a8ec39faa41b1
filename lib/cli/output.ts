import { codeOf, Failure } from './failure.ts'
import type { Output } from './terminal.ts'

/**
 * Writes a result. A reader that stops early (`| head`) is not a failure, because the work is done.
 *
 * @returns false when the reader has gone
 * @throws {@link Failure} for any other reason, such as a full disk
 */
export async function writeResult(stdout: Output, text: string): Promise<boolean> {
  const error = await write(stdout, text)
  if (error !== null && !isReaderGone(error)) throw new Failure(`Cannot write the result: ${error.message}`)
  return error === null
}

/**
 * Writes a secret that is shown only once: here a reader that has gone is a failure too.
 *
 * @param advice the next step after a loss, with the id of the new record
 * @throws {@link Failure} when the secret could not be written
 */
export async function writeOnce(stdout: Output, text: string, advice: string): Promise<void> {
  const error = await write(stdout, text)
  if (error === null) return
  const reason = isReaderGone(error) ? 'its reader has exited' : error.message
  throw new Failure(`Cannot write the secret that is shown only once: ${reason}; ${advice}`)
}

/** Resolves with null once the output has been written, or with the error that prevented it. */
function write(stdout: Output, text: string): Promise<Error | null> {
  return new Promise((resolve) => stdout.write(text, (error) => resolve(error ?? null)))
}

/** The first write gets the first code, later writes the second. */
const READER_GONE = ['EPIPE', 'ERR_STREAM_DESTROYED']

function isReaderGone(error: Error): boolean {
  return READER_GONE.includes(codeOf(error))
}
