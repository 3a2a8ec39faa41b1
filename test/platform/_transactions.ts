import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, migrate, type PostgresStore, type SqlTransaction } from '../../lib/postgres.ts'
import { limitLockWaits, untilWaiting } from '../_waiting.ts'
import { CALLS, invoke } from './_calls.ts'
import { type Host, type Opened, typesOf } from './_platform.ts'
import { createInvoice, invoiceIn, leadIn, proposalIn } from './_records.ts'

// Tests of platform.using(tx) for all drivers except postgres.js, with the same calls, rejections and failures.

/** A host's driver, connected to the test database. */
export interface HostDriver {
  /** Runs `work` in a transaction. Commits when it's done and rolls back if it throws. */
  begin<T>(work: (transaction: SqlTransaction, query: Query) => Promise<T>): Promise<T>
}

/** Runs a statement of the host in the transaction. */
export type Query = (text: string) => Promise<unknown>

const ROLLED_BACK = new Error('rolled back')

/** Registers the tests of a driver. @param outlivesLoss `false` for postgres.js, see lib/platform/README.md */
export function testTransactions(
  name: string,
  opened: Opened,
  driver: () => HostDriver,
  outlivesLoss = true,
): void {
  async function newHost() {
    const host = await opened.newHost()
    const within = (transaction: SqlTransaction): Host => ({
      ...host,
      platform: host.platform.using(transaction),
    })
    return { ...host, within }
  }

  async function rollBack(work: (transaction: SqlTransaction) => Promise<unknown>): Promise<void> {
    const transaction = driver().begin(async (tx) => {
      await work(tx)
      throw ROLLED_BACK
    })
    await assert.rejects(transaction, (error) => error === ROLLED_BACK)
  }

  test(`${name}: every call takes effect with the commit and leaves nothing after a rollback`, async (t) => {
    for (const call of CALLS) {
      await t.test(call.name, async () => {
        const { within, ...host } = await newHost()
        const id = await call.make(host)
        const given = { ...(call.idField && { [call.idField]: id }), idempotencyKey: 'key' }
        const everything = await host.everything()
        await rollBack((tx) => invoke(within(tx), call, given))
        assert.deepEqual(await host.everything(), everything)
        const record = await driver().begin((tx) => invoke(within(tx), call, given))
        assert.deepEqual(
          await invoke(host, call, given),
          record,
          'the key replays what the transaction wrote',
        )
        const published = (await typesOf(host)).slice(Reflect.get(everything, 'events').length)
        assert.deepEqual(published, call.events)
      })
    }
  })

  test(`${name}: records are the same as with the store's own connections`, async () => {
    const { within, ...host } = await newHost()
    const { organizationId } = host
    const business = { name: 'Écume "🏺"', category: null, city: '\\', email: 'a@b.example', phone: "'" }
    const create = ({ platform }: Host) =>
      platform.clients.create(organizationId, {
        name: business.name,
        city: business.city,
        phone: business.phone,
      })
    const beside = await create(host)
    const inside = await driver().begin((tx) => create(within(tx)))
    const { id: _, business: shown, ...rest } = beside
    assert.deepEqual({ ...inside.business, id: '' }, { ...shown, id: '' })
    assert.deepEqual(Object.keys(inside), Object.keys({ id: '', ...rest, business: '' }))
    const overdue = await driver().begin((tx) => invoiceIn(within(tx), 'overdue, partially paid'))
    assert.deepEqual(await host.list('invoices'), [overdue])
  })

  test(`${name}: publish() and markOverdue() are part of the transaction`, async () => {
    const { within, ...host } = await newHost()
    await driver().begin(async (tx) => {
      const there = within(tx)
      await there.platform.publish(host.organizationId, 'support.ticket_created', {
        ticketId: 't_🏺',
        subject: 'Help',
        status: 'open',
      })
      await Promise.all([invoiceIn(there, 'issued'), invoiceIn(there, 'issued')])
      const marked = await there.platform.invoices.markOverdue(host.organizationId, { limit: 1 })
      assert.deepEqual(
        marked.map(({ status }) => status),
        ['overdue'],
      )
      assert.deepEqual(await host.events(), [], 'no other connection sees it yet')
    })
    assert.deepEqual((await typesOf(host)).toSorted(), [
      'invoice.issued',
      'invoice.issued',
      'invoice.overdue',
      'support.ticket_created',
    ])
  })

  test(`${name}: an import is part of the transaction`, async () => {
    const { within, ...host } = await newHost()
    const projects = ['proj_1', 'proj_2'].map((id) => ({
      kind: 'project' as const,
      record: { id, name: 'Écume', status: 'completed', billingType: 'fixed', value: 5 } as const,
    }))
    const imported = await driver().begin(async (tx) => {
      const result = await within(tx).platform.import(host.organizationId, projects)
      assert.deepEqual(await host.list('projects'), [], 'no other connection sees it yet')
      return result
    })
    assert.deepEqual(imported, { added: 2, known: 0, different: [] })
    assert.equal((await host.list('projects')).length, 2)
  })

  test(`${name}: a reversal is part of the transaction`, async () => {
    const { within, ...host } = await newHost()
    const { organizationId, platform } = host
    const { id: invoiceId } = await invoiceIn(host, 'paid')
    const payments = async () => (await platform.invoices.payments(organizationId, invoiceId)).data
    const paymentId = (await payments())[0]?.id ?? ''
    const reverse = (tx: SqlTransaction) =>
      within(tx).platform.invoices.reversePayment(organizationId, { invoiceId, paymentId, actor: 'Amel' })
    await rollBack(reverse)
    assert.equal((await payments()).length, 1)
    const { invoice, payment } = await driver().begin(reverse)
    assert.deepEqual([invoice.status, payment.amount], ['overdue', '-1250.000'])
    const [reversal, reversed] = await payments()
    assert.deepEqual([reversal, reversed?.reversedBy], [payment, payment.id])
  })

  test(`${name}: a rejected call leaves the transaction usable`, async () => {
    const { within, ...host } = await newHost()
    const { organizationId } = host
    await createInvoice(host, { number: 'A', idempotencyKey: 'key' })
    const { id: proposalId } = await proposalIn(host, 'draft')
    const { lead } = await leadIn(host, 'lost')
    const { id: invoiceId } = await invoiceIn(host, 'partially_paid')
    const made = await driver().begin(async (tx, query) => {
      const there = within(tx)
      const { invoices, proposals, leads } = there.platform
      const refused: [attempt: () => Promise<unknown>, code: string][] = [
        [() => createInvoice(there, { number: 'A' }), 'already_exists'],
        [() => createInvoice(there, { total: '2', idempotencyKey: 'key' }), 'idempotency_key_reused'],
        [() => invoices.recordPayment(organizationId, { invoiceId, amount: '1000.001' }), 'overpayment'],
        [() => invoices.void(organizationId, { invoiceId }), 'invalid_state'],
        [() => invoices.issue(organizationId, { invoiceId: 'nobody' }), 'not_found'],
        [() => proposals.accept(organizationId, { proposalId, signedBy: 'A' }), 'invalid_state'],
        [() => leads.convert(organizationId, { leadId: lead.id }), 'invalid_state'],
      ]
      for (const [attempt, code] of refused) {
        await assert.rejects(attempt, { code })
        await query('select 1 as one')
      }
      return createInvoice(there)
    })
    assert.equal((await host.list('invoices'))[0]?.id, made.id)
  })

  test(`${name}: reads see the transaction's uncommitted writes with every kind of filter`, async () => {
    const { within, ...host } = await newHost()
    const { organizationId } = host
    await rollBack(async (tx) => {
      const there = within(tx)
      const { businesses, clients, invoices, leads, proposals } = there.platform
      const { lead, businessId } = await leadIn(there, 'new')
      const [older, newer] = [await invoiceIn(there, 'issued'), await invoiceIn(there, 'partially_paid')]
      const proposal = await proposalIn(there, 'sent')
      const idsOf = ({ data }: { readonly data: readonly { readonly id: string }[] }) =>
        data.map(({ id }) => id)
      assert.deepEqual(idsOf(await businesses.list(organizationId)), [businessId])
      assert.deepEqual(await clients.list(organizationId, { businessId }), { data: [], next: null })
      const { updatedAt, ...read } = await leads.get(organizationId, lead.id)
      assert.deepEqual(read, { ...lead, businessId })
      assert.ok(Date.parse(updatedAt) > 0)
      assert.deepEqual(idsOf(await leads.list(organizationId, { businessId, stages: ['new'] })), [lead.id])
      const due = { dueBefore: '2099-01-01T00:00:00Z', statuses: ['issued', 'partially_paid'], limit: 1 }
      const page = await invoices.list(organizationId, due)
      assert.deepEqual([idsOf(page), page.next], [[newer.id], newer.id])
      assert.deepEqual(idsOf(await invoices.list(organizationId, { ...due, before: page.next })), [older.id])
      assert.deepEqual(idsOf(await invoices.list(organizationId, { statuses: ['issued'] })), [older.id])
      assert.equal((await invoices.payments(organizationId, newer.id)).data.length, 1)
      const { data } = await proposals.list(organizationId, { number: proposal.number })
      assert.deepEqual(data, [{ ...proposal, signature: null, updatedAt: data[0]?.updatedAt }])
      await assert.rejects(invoices.get(organizationId, 'inv_none'), { code: 'not_found' })
      assert.deepEqual(await host.platform.invoices.list(organizationId), { data: [], next: null })
    })
  })

  test(`${name}: concurrent calls take turns on the transaction's only connection`, async () => {
    const { within, ...host } = await newHost()
    const { organizationId } = host
    const statuses = await driver().begin(async (tx) => {
      const there = within(tx)
      const { id: invoiceId } = await invoiceIn(there, 'issued')
      const payments = Array.from({ length: 10 }, () =>
        there.platform.invoices.recordPayment(organizationId, { invoiceId, amount: '125' }),
      )
      return (await Promise.all(payments)).map(({ invoice }) => invoice.status)
    })
    assert.equal(statuses.filter((status) => status === 'paid').length, 1)
  })

  // --- Failures ---

  test(`${name}: a lock that is not available in time is store_unavailable`, async () => {
    const { within } = await newHost()
    await driver().begin(async (tx) => {
      await createInvoice(within(tx), { number: 'A', idempotencyKey: 'key' })
      const begunAt = performance.now()
      const other = driver().begin(async (second, query) => {
        await limitLockWaits(query, '50ms')
        await createInvoice(within(second), { number: 'A', idempotencyKey: 'key' })
      })
      await assert.rejects(other, { code: 'store_unavailable' })
      const tookMs = performance.now() - begunAt
      assert.ok(tookMs < 5000, `waited ${tookMs} ms for a lock`)
    })
  })

  test(`${name}: a number that another transaction commits first is store_unavailable`, async () => {
    const { within } = await newHost()
    let second: Promise<unknown> = Promise.resolve()
    await driver().begin(async (tx) => {
      await createInvoice(within(tx), { number: 'A' })
      second = driver().begin((other) => createInvoice(within(other), { number: 'A' }))
      second.catch(() => {})
      await untilWaiting(opened.sql())
    })
    await assert.rejects(second, { code: 'store_unavailable' })
  })

  test(`${name}: an event over the limit is invalid_event, with the limit in the message`, async () => {
    const { organizationId, store } = await newHost()
    const createdAt = new Date().toISOString()
    const event = { id: 'evt_large', type: 'project.completed', createdAt, body: 'x'.repeat(262_145) }
    const transaction = driver().begin((tx) => storeOf(store).using(tx).events.publish(organizationId, event))
    await assert.rejects(transaction, {
      code: 'invalid_event',
      message:
        /^Cannot publish project.completed .* 262145 bytes, more than the maximum of 262144\. Publish an id/,
    })
  })

  test(`${name}: a record that violates a schema constraint is invalid_input, which names the constraint`, async () => {
    const { organizationId, store } = await newHost()
    const record = { id: 'proj_1', name: 'A', status: 'active', billingType: 'fixed', value: Number.NaN }
    const creation = { organizationId, events: [], idempotency: null, record }
    const broken = driver().begin((tx) => storeOf(store).using(tx).projects.create(creation))
    await assert.rejects(broken, {
      code: 'invalid_input',
      message: /because it breaks projects_value_check$/,
    })
  })

  test(`${name}: a call in a failed transaction fails with PostgreSQL's code`, async () => {
    const { within } = await newHost()
    const transaction = driver().begin(async (tx, query) => {
      await query('select 1 / 0').catch(() => {})
      await assert.rejects(createInvoice(within(tx)), { code: '25P02' })
      throw ROLLED_BACK
    })
    await assert.rejects(transaction, (error) => error === ROLLED_BACK)
  })

  const skip = outlivesLoss ? false : 'the driver itself throws outside of every promise'
  test(`${name}: a connection lost during the transaction is store_unavailable`, { skip }, async () => {
    const { within, ...host } = await newHost()
    const transaction = driver().begin(async (tx, query) => {
      await createInvoice(within(tx))
      await query("set local application_name = 'to be killed'")
      await opened.sql()`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and application_name = 'to be killed'`
      await assert.rejects(createInvoice(within(tx)), { code: 'store_unavailable' })
      throw ROLLED_BACK
    })
    // Drivers reject because the rollback failed.
    await assert.rejects(transaction)
    assert.deepEqual(await host.list('invoices'), [])
  })

  test(`${name}: a database that was never migrated is schema_missing`, async () => {
    const database = opened.database()
    await opened.sql()`alter schema business_api rename to elsewhere`
    try {
      const store = createPostgresStore(database.url)
      const platform = createPlatform(store)
      const transaction = driver().begin((tx) =>
        platform.using(tx).clients.create('org_1', { name: 'Atlas' }),
      )
      await assert.rejects(transaction, { code: 'schema_missing' })
      await store.close()
    } finally {
      await opened.sql()`alter schema elsewhere rename to business_api`
    }
    await migrate(database.url)
  })
}

function storeOf(store: BusinessApiStore): PostgresStore {
  return store as PostgresStore
}
