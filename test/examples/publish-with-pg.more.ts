import { createPool, inTransaction, openTicket } from '../../examples/publish-with-pg.ts'
import { testPublishing } from './_publishing.ts'

testPublishing('publish-with-pg', {
  createPool,
  open: (pool, ticket, more) =>
    inTransaction(pool, async (client) => {
      await openTicket(client, ticket)
      await more?.((sql) => client.query(sql))
    }),
})
