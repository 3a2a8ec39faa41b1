import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import type pg from 'pg'
import type { Event } from '../../lib/index.ts'
import { verifyWebhook } from '../../lib/webhooks.ts'
import { listen, startPlatform, type TestPlatform } from './_platform.ts'
import { startSource } from './_program.ts'

// The tests of every example that publishes in the host's own transaction, with any driver.

/** A ticket of the examples. */
export interface Ticket {
  readonly id: string
  readonly organizationId: string
  readonly subject: string
}

/** An example's own way to open a ticket. */
export interface Publishing {
  createPool(url: string): pg.Pool
  /** Opens a ticket in a transaction, and does `more` before the commit. */
  open(pool: pg.Pool, ticket: Ticket, more?: (query: Query) => Promise<unknown>): Promise<void>
}

/** A statement in the transaction. */
export type Query = (sql: string) => Promise<unknown>

/** Registers the tests of an example of that name. */
export function testPublishing(name: string, { createPool, open }: Publishing): void {
  const arrived: Event[] = []
  let platform: TestPlatform
  let server: Server
  let pool: pg.Pool
  before(async () => {
    platform = await startPlatform()
    let secret = ''
    server = createServer(async (request, response) => {
      const body = await text(request)
      verifyWebhook(body, request.headers['x-service-signature'], secret)
      arrived.push(JSON.parse(body))
      response.end()
    })
    secret = await platform.register(await listen(server))
    pool = createPool(platform.databaseUrl)
  })
  after(async () => {
    await pool.end()
    server.close()
    await platform.close()
  })

  /** The tickets that there are, and the events that arrive now. */
  async function readPublished(): Promise<{ subjects: string[]; events: Event[] }> {
    await platform.deliver()
    const { rows } = await pool.query('select subject from tickets order by subject')
    return { subjects: rows.map(({ subject }) => subject), events: arrived.splice(0) }
  }

  const ticketOf = (id: string): Ticket => ({ id, organizationId: platform.organizationId, subject: id })

  test(`examples/${name} opens a ticket, and every endpoint gets the event`, async () => {
    const args = [`examples/${name}.ts`, platform.organizationId, 'Écume: no "invoice" 🏺']
    const program = startSource(args, { DATABASE_URL: platform.databaseUrl })
    assert.equal(await program.exit, 0, program.stderr())
    const ticketId = program.stdout().trim()
    const { subjects, events } = await readPublished()
    assert.deepEqual(subjects, ['Écume: no "invoice" 🏺'])
    assert.deepEqual(
      events.map(({ id, type, data }) => ({ id, type, data })),
      [
        {
          id: `evt_${ticketId}`,
          type: 'support.ticket_created',
          data: { ticketId, subject: 'Écume: no "invoice" 🏺', status: 'open' },
        },
      ],
    )
    await pool.query('delete from tickets')
  })

  test(`examples/${name} sends nothing of a transaction that is rolled back`, async () => {
    const refused = open(pool, ticketOf('tic_rolled_back'), () =>
      Promise.reject(new Error('changed my mind')),
    )
    await assert.rejects(refused, /changed my mind/)
    assert.deepEqual(await readPublished(), { subjects: [], events: [] })
  })

  test(`examples/${name} keeps no ticket without its event`, async () => {
    await assert.rejects(open(pool, { ...ticketOf('tic_nobody'), organizationId: '' }), (error) => {
      const { message, cause } = error as Error
      return /organization id is not 1 to 64 characters/.test(`${message} ${cause}`)
    })
    assert.deepEqual(await readPublished(), { subjects: [], events: [] })
  })

  test(`examples/${name} outlives a connection that dies in a transaction, and nothing is sent`, async (t) => {
    const told = t.mock.method(console, 'error', () => {})
    const killed = open(pool, ticketOf('tic_killed'), async (query) => {
      const lost = new Promise((resolve) => told.mock.mockImplementation(resolve))
      const deadline = setTimeout(5000, undefined, { ref: false })
      await pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and state = 'idle in transaction'`,
      )
      // Between two statements only a listener on the connection notices the loss.
      await Promise.race([lost, deadline])
      await query('select 1')
    })
    await assert.rejects(killed)
    assert.match(String(told.mock.calls[0]?.arguments[0]), /^Lost a connection: /)
    assert.deepEqual(await readPublished(), { subjects: [], events: [] })
  })

  test(`examples/${name} may be run again with a ticket after the response to the commit was lost`, async () => {
    await Promise.all(['tic_1', 'tic_1', 'tic_2', 'tic_1'].map((id) => open(pool, ticketOf(id))))
    await open(pool, ticketOf('tic_2'))
    const { subjects, events } = await readPublished()
    assert.deepEqual(subjects, ['tic_1', 'tic_2'])
    assert.deepEqual(events.map(({ id }) => id).sort(), ['evt_tic_1', 'evt_tic_2'])
  })

  test(`examples/${name} names the missing setting`, async () => {
    const program = startSource([`examples/${name}.ts`, 'org_1'], { DATABASE_URL: platform.databaseUrl })
    assert.equal(await program.exit, 2)
    assert.match(program.stderr(), /^Usage: DATABASE_URL=.*\n$/)
  })

  test(`examples/${name} reports an unusable database in one line, without the password`, async () => {
    const nobody = new URL(platform.databaseUrl)
    nobody.username = 'nobody_known'
    nobody.password = 'open-sesame'
    const nowhere = 'postgres://somebody:open-sesame@127.0.0.1:9/nowhere'
    const run = (url: string) => startSource([`examples/${name}.ts`, 'org_1', 'Hello'], { DATABASE_URL: url })
    for (const program of [nobody.href, nowhere, 'open-sesame'].map(run)) {
      assert.equal(await program.exit, 1)
      assert.match(
        program.stderr(),
        /^Cannot (migrate because PostgreSQL|use the connection string because) .+\n$/,
      )
      assert.ok(!program.stderr().includes('open-sesame'))
    }
  })
}
