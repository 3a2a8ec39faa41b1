import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { createPool, openTicket } from '../../examples/publish-with-drizzle.ts'
import { testPublishing } from './_publishing.ts'

testPublishing('publish-with-drizzle', {
  createPool,
  open: (pool, ticket, more) =>
    drizzle(pool).transaction(async (tx) => {
      await openTicket(tx, ticket)
      await more?.((statement) => tx.execute(sql.raw(statement)))
    }),
})
