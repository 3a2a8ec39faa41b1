// An application that has its own tickets. It opens one and publishes support.ticket_created in the same transaction
// with Drizzle and the SQL function. If the transaction commits, the event is sent to all endpoints subscribed to its
// type. If it's rolled back, nothing is sent.
//
//   DATABASE_URL=postgres://… npx tsx examples/publish-with-drizzle.ts ORGANIZATION_ID 'Cannot download my invoice'

import { randomUUID } from 'node:crypto'
import { realpathSync } from 'node:fs'
import type { EventData } from 'business-api-kit'
import { migrate } from 'business-api-kit/postgres'
import { sql } from 'drizzle-orm'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import pg from 'pg'

/** Our own table. */
export const tickets = pgTable('tickets', {
  id: text().primaryKey(),
  organizationId: text('organization_id').notNull(),
  subject: text().notNull(),
  status: text().notNull(),
})

/** The fields of a new ticket. */
export type Ticket = Pick<typeof tickets.$inferSelect, 'id' | 'organizationId' | 'subject'>
/** The database or a transaction on it. */
export type Queries = Pick<NodePgDatabase, 'insert' | 'execute'>

/**
 * Opens a ticket and publishes the event. If the result of a commit was lost, run the transaction again with the same
 * ticket. Rows and events with the same id are only created once.
 */
export async function openTicket(tx: Queries, { id, organizationId, subject }: Ticket): Promise<void> {
  await tx.insert(tickets).values({ id, organizationId, subject, status: 'open' }).onConflictDoNothing()
  // The SQL function checks the type of the event, and the compiler checks its data.
  const data: EventData<'support.ticket_created'> = { ticketId: id, subject, status: 'open' }
  await tx.execute(sql`
    select business_api.publish_event(
      ${organizationId}, 'support.ticket_created', ${JSON.stringify(data)}::jsonb, ${`evt_${id}`}
    )`)
}

/** Creates a pool that can handle broken connections. */
export function createPool(url: string): pg.Pool {
  // Without a limit, queries would wait forever if the network goes silent.
  const pool = new pg.Pool({ connectionString: url, query_timeout: 10_000 })
  // An 'error' event without a listener ends the process. Idle connections emit it on the pool. Connections in use, for
  // example between two statements of a transaction, only emit it on themselves, and Drizzle doesn't add a listener.
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
    fail('Usage: DATABASE_URL=… npx tsx examples/publish-with-drizzle.ts ORGANIZATION_ID SUBJECT')
  }
  await migrate(DATABASE_URL).catch((error) => fail(error.message, 1))
  const pool = createPool(DATABASE_URL)
  const db = drizzle(pool)
  // You'd normally create tables with drizzle-kit.
  await db.execute(sql`
    create table if not exists tickets (
      id text primary key, organization_id text not null, subject text not null, status text not null
    )`)
  const ticket: Ticket = { id: `tic_${randomUUID()}`, organizationId, subject }
  await db.transaction((tx) => openTicket(tx, ticket))
  console.log(ticket.id)
  await pool.end()
}

if (process.argv[1] && realpathSync(process.argv[1]) === import.meta.filename) await main()
