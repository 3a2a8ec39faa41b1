// An application that has its own tickets. It opens one and publishes support.ticket_created in the same transaction
// with the SQL function. If the transaction commits, the event is sent to all endpoints subscribed to its type. If it's
// rolled back, nothing is sent. This works with any language and driver. For postgres.js and the platform's own
// records, see the README.
//
//   DATABASE_URL=postgres://… npx tsx examples/publish-with-pg.ts ORGANIZATION_ID 'Cannot download my invoice'

import { randomUUID } from 'node:crypto'
import { realpathSync } from 'node:fs'
import type { EventData } from 'business-api-kit'
import { migrate } from 'business-api-kit/postgres'
import pg from 'pg'

/** A row of our own table. */
export interface Ticket {
  readonly id: string
  readonly organizationId: string
  readonly subject: string
}

/** Our own table. */
export const TICKETS_TABLE = `
  create table if not exists tickets (
    id text primary key,
    organization_id text not null,
    subject text not null,
    status text not null
  )`

/**
 * Opens a ticket and publishes the event. If the result of a commit was lost, run the transaction again with the same
 * ticket. Rows and events with the same id are only created once.
 */
export async function openTicket(client: pg.ClientBase, ticket: Ticket): Promise<void> {
  const { id, organizationId, subject } = ticket
  await client.query(
    `insert into tickets (id, organization_id, subject, status) values ($1, $2, $3, 'open')
     on conflict (id) do nothing`,
    [id, organizationId, subject],
  )
  // The SQL function checks the type of the event, and the compiler checks its data.
  const data: EventData<'support.ticket_created'> = { ticketId: id, subject, status: 'open' }
  await client.query(`select business_api.publish_event($1, 'support.ticket_created', $2::jsonb, $3)`, [
    organizationId,
    JSON.stringify(data),
    `evt_${id}`,
  ])
}

/** Runs a callback in a transaction. If it throws, nothing is written. */
export async function inTransaction<Result>(
  pool: pg.Pool,
  work: (client: pg.ClientBase) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect()
  let broken: Error | undefined
  try {
    await client.query('begin')
    const result = await work(client)
    await client.query('commit')
    return result
  } catch (error) {
    // The connection itself may have failed. If we release it as broken, it's closed, which also rolls back.
    await client.query('rollback').catch((reason) => {
      broken = reason
    })
    throw error
  } finally {
    client.release(broken)
  }
}

/** Creates a pool that can handle broken connections. */
export function createPool(url: string): pg.Pool {
  // Without a limit, queries would wait forever if the network goes silent.
  const pool = new pg.Pool({ connectionString: url, query_timeout: 10_000 })
  // An 'error' event without a listener ends the process. Idle connections emit it on the pool. Connections in use, for
  // example between two statements of a transaction, only emit it on themselves.
  const report = ({ message }: Error): void => console.error(`Lost a connection: ${message}`)
  pool.on('error', report)
  pool.on('connect', (client) => client.on('error', report))
  return pool
}

/** Expected failures don't need a stack trace. */
function fail(line: string, exitCode = 2): never {
  console.error(line)
  process.exit(exitCode)
}

async function main(): Promise<void> {
  const { DATABASE_URL } = process.env
  const [organizationId, subject] = process.argv.slice(2)
  if (!DATABASE_URL || !organizationId || !subject) {
    fail('Usage: DATABASE_URL=… npx tsx examples/publish-with-pg.ts ORGANIZATION_ID SUBJECT')
  }
  await migrate(DATABASE_URL).catch((error) => fail(error.message, 1))
  const pool = createPool(DATABASE_URL)
  await pool.query(TICKETS_TABLE)
  const ticket: Ticket = { id: `tic_${randomUUID()}`, organizationId, subject }
  await inTransaction(pool, (client) => openTicket(client, ticket))
  console.log(ticket.id)
  await pool.end()
}

if (process.argv[1] && realpathSync(process.argv[1]) === import.meta.filename) await main()
