import { codeOf, Failure } from './failure.ts'
import type { Output } from './terminal.ts'

/**
 * Writes a result. That its reader has seen enough, `| head`, is no failure: what was asked for is done.
 *
 * @throws {@link Failure} when it could not be written for another reason, as the disk is full for instance
 */
export async function writeResult(stdout: Output, text: string): Promise<void> {
  const error = await write(stdout, text)
  if (error !== null && !isReaderGone(error)) throw new Failure(`Cannot write the result: ${error.message}`)
}

/**
 * Writes what is shown this once: here a reader that has gone is a failure too.
 *
 * @param advice what to do when it is lost, with the id of what was made
 * @throws {@link Failure} when it could not be written
 */
export async function writeOnce(stdout: Output, text: string, advice: string): Promise<void> {
  const error = await write(stdout, text)
  if (error === null) return
  const reason = isReaderGone(error) ? 'nobody reads it' : error.message
  throw new Failure(`Cannot write what is shown only once: ${reason}; ${advice}`)
}

/** Resolves when the text is out of the process's hands, or with what has kept it from being written. */
function write(stdout: Output, text: string): Promise<Error | null> {
  return new Promise((resolve) => stdout.write(text, (error) => resolve(error ?? null)))
}

/** A stream that has had the first is gone for the next write. */
const READER_GONE = ['EPIPE', 'ERR_STREAM_DESTROYED']

function isReaderGone(error: Error): boolean {
  return READER_GONE.includes(codeOf(error))
}
