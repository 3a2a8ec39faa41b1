import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'

// Waits for locks, of the sessions of a test's database.

/** Far longer than a session needs to begin to wait, in milliseconds. */
const PATIENCE_MS = 60_000

/** Counts the sessions of a test's database that wait for a lock. */
export async function countWaiting(sql: Pick<Sql, 'unsafe'>): Promise<number> {
  const [found] = await sql.unsafe(
    "select count(*)::int from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
  )
  return Number(found?.count)
}

/**
 * Waits until sessions wait for a lock.
 *
 * @param count so many sessions at least
 * @throws Error if fewer sessions wait after a minute
 */
export async function untilWaiting(sql: Pick<Sql, 'unsafe'>, count = 1): Promise<void> {
  const giveUpAt = performance.now() + PATIENCE_MS
  while (true) {
    const waiting = await countWaiting(sql)
    if (waiting >= count) return
    if (performance.now() > giveUpAt) {
      throw new Error(
        `Waited ${PATIENCE_MS} ms in vain until ${count} sessions wait for a lock: ${waiting} do`,
      )
    }
    await sleep(10)
  }
}

/**
 * Sets how long the statements of a transaction wait for a lock. Without effect, the statements end after a minute.
 *
 * @param query sends a statement of the transaction
 * @param timeout with its unit, as `50ms`
 */
export async function limitLockWaits(
  query: (text: string) => PromiseLike<unknown>,
  timeout: string,
): Promise<void> {
  await query(`set local lock_timeout = '${timeout}'`)
  await query(`set local statement_timeout = ${PATIENCE_MS}`)
}

/** Returns whether a program on this machine accepts connections on a port. */
export async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
