import pg from 'pg'
import { type Job, postSigned } from './signed-post.ts'

// The attempt of every job queue: a signed POST and a row in a log of attempts, as in the library.

/** Prepares the attempts of a process. */
export function createAttempts(pool: pg.Pool): (job: Job) => Promise<void> {
  return async (job) => {
    const { status, ms } = await postSigned(job)
    await pool.query('insert into peer.attempts (event_id, ms, status) values ($1, $2, $3)', [
      job.id,
      ms,
      status,
    ])
    if (status >= 300) throw new Error(`HTTP ${status}`)
  }
}

/** Opens a pool with a connection for the row of each attempt in flight. */
export function openPool(url: string, max: number): pg.Pool {
  return new pg.Pool({ connectionString: url, max })
}
