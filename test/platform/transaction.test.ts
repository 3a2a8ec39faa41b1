import assert from 'node:assert/strict'
import { test } from 'node:test'
import postgres, { type Sql, type TransactionSql } from 'postgres'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, createWebhookSender } from '../../lib/webhooks.ts'
import { limitLockWaits } from '../_waiting.ts'
import { startReceiver } from '../sender/_receiver.ts'
import { CALLS, call as callByName, invoke } from './_calls.ts'
import { type Host, openPostgres, typesOf } from './_platform.ts'
import { createInvoice, invoiceIn, leadIn, proposalIn } from './_records.ts'

// The host's calls in one of its own transactions: platform.using(tx) with postgres.js.

const opened = openPostgres()

/** A host, and the same one with calls in a transaction. */
async function newHost() {
  const host = await opened.newHost()
  const within = (transaction: TransactionSql): Host => ({
    ...host,
    platform: host.platform.using(transaction),
  })
  return { ...host, within }
}

const DEVELOPMENT = { allowHttp: true, allowPrivateNetworks: true }
const ROLLED_BACK = new Error('rolled back')

async function rollBack(sql: Sql, work: (transaction: TransactionSql) => Promise<unknown>): Promise<void> {
  const transaction = sql.begin(async (tx) => {
    await work(tx)
    throw ROLLED_BACK
  })
  await assert.rejects(transaction, ROLLED_BACK)
}

function nth(count: number): string {
  return `INV-2020-${String(count).padStart(4, '0')}`
}

test('if half of 100 transactions are rolled back, the records, events and numbers of the other half exist', async () => {
  const { within, ...host } = await newHost()
  const committed: string[] = []
  async function one(index: number): Promise<void> {
    const work = async (tx: TransactionSql): Promise<string> => {
      const there = within(tx)
      const { id } = await invoiceIn(there, 'paid')
      await there.platform.publish(host.organizationId, 'support.ticket_created', {
        ticketId: id,
        subject: 'Help',
        status: 'open',
      })
      return id
    }
    if (index % 2 === 0) await rollBack(opened.sql(), work)
    else committed.push(await opened.sql().begin(work))
  }
  // Five at a time, so that each one encounters commits and rollbacks.
  for (let round = 0; round < 20; round++) {
    await Promise.all(Array.from({ length: 5 }, (_, index) => one(round * 5 + index)))
  }
  const invoices = await host.list('invoices')
  assert.deepEqual(invoices.map(({ id }) => id).toSorted(), committed.toSorted())
  assert.deepEqual(
    invoices.map(({ number }) => String(number)).toSorted(),
    Array.from({ length: 50 }, (_, index) => nth(index + 1)),
  )
  const events = await host.events()
  for (const type of ['invoice.issued', 'payment.received', 'invoice.paid', 'support.ticket_created']) {
    const about = events
      .filter((event) => event.type === type)
      .map(({ data }) => data.invoiceId ?? data.ticketId)
    assert.deepEqual(about.toSorted(), committed.toSorted(), type)
  }
  assert.equal(events.length, 200)
})

for (const call of CALLS) {
  test(`${call.name} in a transaction takes effect with the commit and leaves nothing after a rollback`, async () => {
    const { within, ...host } = await newHost()
    const id = await call.make(host)
    const given = { ...(call.idField && { [call.idField]: id }), idempotencyKey: 'key' }
    const everything = await host.everything()
    await rollBack(opened.sql(), async (tx) => {
      await invoke(within(tx), call, given)
      assert.deepEqual(await host.everything(), everything, 'no other connection sees the change yet')
    })
    assert.deepEqual(await host.everything(), everything)
    const record = await opened.sql().begin((tx) => invoke(within(tx), call, given))
    assert.deepEqual(await invoke(host, call, given), record, 'the key was not used by what was rolled back')
    const published = (await typesOf(host)).slice(Reflect.get(everything, 'events').length)
    assert.deepEqual(published, call.events)
  })
}

// --- Rejections ---

test('a rejected call leaves the transaction usable, and it can commit', async () => {
  const { within, ...host } = await newHost()
  const { organizationId } = host
  await createInvoice(host, { number: 'A', idempotencyKey: 'key' })
  const { id: proposalId } = await proposalIn(host, 'draft')
  const { lead } = await leadIn(host, 'lost')
  const { id: paidId } = await invoiceIn(host, 'partially_paid')
  const invoiceId = await opened.sql().begin(async (tx) => {
    const there = within(tx)
    const { invoices, proposals, leads, publish } = there.platform
    const refused: [attempt: () => Promise<unknown>, code: string][] = [
      [() => createInvoice(there, { number: 'A' }), 'already_exists'],
      [() => createInvoice(there, { total: '2', idempotencyKey: 'key' }), 'idempotency_key_reused'],
      [() => createInvoice(there, { total: '0.0001' }), 'invalid_input'],
      [
        () => invoices.recordPayment(organizationId, { invoiceId: paidId, amount: '1000.001' }),
        'overpayment',
      ],
      [
        () => invoices.recordPayment(organizationId, { invoiceId: paidId, amount: '0.0001' }),
        'invalid_input',
      ],
      [() => invoices.void(organizationId, { invoiceId: paidId }), 'invalid_state'],
      [() => invoices.issue(organizationId, { invoiceId: 'nobody' }), 'not_found'],
      [() => proposals.accept(organizationId, { proposalId, signedBy: 'A' }), 'invalid_state'],
      [() => proposals.revise(organizationId, { proposalId, currency: 'JPY' }), 'invalid_input'],
      [() => leads.convert(organizationId, { leadId: lead.id }), 'invalid_state'],
      [() => leads.create(organizationId, { businessId: 'nobody' }), 'not_found'],
      [() => callByName(there.platform, 'projects.create', organizationId, {}), 'invalid_input'],
      [() => Reflect.apply(publish, undefined, [organizationId, 'no.such', {}]), 'invalid_event'],
    ]
    for (const [attempt, code] of refused) {
      await assert.rejects(attempt, { code })
      assert.deepEqual([...(await tx`select 1 as one`)], [{ one: 1 }])
    }
    return (await createInvoice(there)).id
  })
  assert.equal((await host.list('invoices'))[0]?.id, invoiceId)
})

test('calls see the writes of the transaction, other calls and the host, and idempotency keys replay', async () => {
  const { within, ...host } = await newHost()
  const { organizationId } = host
  await opened.sql().begin(async (tx) => {
    const there = within(tx)
    const made = await createInvoice(there, { idempotencyKey: 'key' })
    assert.deepEqual(await createInvoice(there, { idempotencyKey: 'key' }), made)
    assert.equal((await createInvoice(there)).number, nth(2))
    await there.platform.invoices.issue(organizationId, { invoiceId: made.id })
    const payments = Array.from({ length: 10 }, () =>
      there.platform.invoices.recordPayment(organizationId, { invoiceId: made.id, amount: '125' }),
    )
    // Concurrent calls on the transaction's only connection.
    const statuses = (await Promise.all(payments)).map(({ invoice }) => invoice.status)
    assert.equal(statuses.filter((status) => status === 'paid').length, 1)
    const rows = await tx`select status from business_api.invoices where id = ${made.id}`
    assert.equal(rows[0]?.status, 'paid')
  })
  assert.equal((await typesOf(host)).filter((type) => type === 'invoice.paid').length, 1)
})

test('a savepoint of the host can be used as a transaction', async () => {
  const { within, ...host } = await newHost()
  await opened.sql().begin(async (tx) => {
    const attempt = tx.savepoint(async (inner) => {
      await createInvoice(within(inner))
      throw ROLLED_BACK
    })
    await assert.rejects(attempt, ROLLED_BACK)
    await createInvoice(within(tx), { number: 'kept' })
  })
  assert.deepEqual(
    (await host.list('invoices')).map(({ number }) => number),
    ['kept'],
  )
})

// --- The host's connection ---

test("the settings of the host’s transaction aren't changed", async () => {
  const { within, ...host } = await newHost()
  await opened.sql().begin(async (tx) => {
    await limitLockWaits((text) => tx.unsafe(text), '1234ms')
    await tx`set local statement_timeout = '54321ms'`
    const there = within(tx)
    await createInvoice(there)
    const settings = async () => [
      await tx`
        select name, setting from pg_settings
        where name in ('lock_timeout', 'statement_timeout', 'synchronous_commit', 'search_path', 'enable_seqscan', 'plan_cache_mode')`,
      await tx`
        select current_setting('lock_timeout') as lock_timeout, current_setting('statement_timeout') as statement_timeout,
          current_setting('search_path') as search_path, current_setting('plan_cache_mode') as plan_cache_mode
        from business_api.invoices where organization_id = ${host.organizationId} limit 1`,
    ]
    const before = await settings()
    assert.equal(before[1]?.[0]?.lock_timeout, '1234ms')
    for (const call of CALLS) {
      const id = await call.make(there)
      await invoke(there, call, { ...(call.idField && { [call.idField]: id }), idempotencyKey: 'key' })
    }
    await there.platform.invoices.markOverdue(host.organizationId)
    assert.deepEqual(await settings(), before)
  })
})

test('a key locked by another transaction for longer than the host’s lock_timeout fails the transaction', async () => {
  const { within } = await newHost()
  await opened.sql().begin(async (tx) => {
    await createInvoice(within(tx), { number: 'A', idempotencyKey: 'key' })
    const begunAt = performance.now()
    const other = opened.sql().begin(async (second) => {
      await limitLockWaits((text) => second.unsafe(text), '50ms')
      await createInvoice(within(second), { number: 'A', idempotencyKey: 'key' })
    })
    await assert.rejects(other, { code: 'store_unavailable' })
    const tookMs = performance.now() - begunAt
    assert.ok(tookMs < 5000, `waited ${tookMs} ms for a lock`)
  })
})

const BY_ROW = { row: (row: object) => ({ ...row }) }
const POOLS: Record<string, postgres.Options<Record<string, postgres.PostgresType>>> = {
  'camel case': { transform: postgres.camel },
  'Pascal case': { transform: postgres.toPascal },
  'undefined as null': { transform: { undefined: null } },
  'a transform of values': { transform: { value: (value: unknown) => (value === '' ? null : [value]) } },
  'a transform of rows': { transform: BY_ROW },
  'types of its own': {
    types: {
      text: {
        to: 25,
        from: [25],
        serialize: (text: string) => String(text),
        parse: (text: string) => `<${text}>`,
      },
      json: { to: 114, from: [114, 3802], serialize: JSON.stringify, parse: () => 'json' },
      money: { to: 1700, from: [1700], serialize: String, parse: Number },
    },
  },
  'no prepared statements': { prepare: false },
  'no fetched types': { fetch_types: false },
}

for (const [what, options] of Object.entries(POOLS)) {
  test(`a host whose pool has ${what} can use the transaction and the store at the same time`, async () => {
    const { within, ...host } = await newHost()
    const sql = opened.database().sql(options)
    const store = createPostgresStore(sql)
    try {
      const inside = await sql.begin((tx) => invoiceIn(within(tx), 'paid'))
      const beside = await invoiceIn({ ...host, platform: createPlatform(store) }, 'paid')
      assert.deepEqual(await host.list('invoices'), [beside, inside])
    } finally {
      await store.close()
    }
  })
}

test("using() throws a TypeError if the value isn't a transaction", async () => {
  const { platform } = await newHost()
  const sql = opened.sql()
  const reserved = await sql.reserve()
  try {
    for (const odd of [undefined, null, {}, sql, reserved, 'begin', async () => {}]) {
      assert.throws(() => Reflect.apply(platform.using, undefined, [odd]), {
        name: 'TypeError',
        message:
          /^Cannot use the transaction because it is neither the argument of the callback of postgres.js' sql.begin\(…\) nor the result of pgTransaction\(…\), /,
      })
    }
  } finally {
    reserved.release()
  }
})

test('a call in a failed transaction fails and says so', async () => {
  const { within } = await newHost()
  const transaction = opened.sql().begin(async (tx) => {
    await tx`select 1 / 0`.catch(() => {})
    await assert.rejects(createInvoice(within(tx)), { code: '25P02' })
  })
  // postgres.js throws the first of all errors, even if it was caught.
  await assert.rejects(transaction, { code: '22012' })
})

// --- Outside the transaction ---

test('a payment outside waits for a payment in a transaction and adds to the committed sum', async () => {
  for (const how of ['commit', 'rollback'] as const) {
    const { within, ...host } = await newHost()
    const { organizationId } = host
    const { id: invoiceId } = await invoiceIn(host, 'issued', { total: '3' })
    const pay = ({ platform }: Host, amount: string) =>
      platform.invoices.recordPayment(organizationId, { invoiceId, amount })
    let outside: Promise<PromiseSettledResult<unknown>[]> = Promise.resolve([])
    const work = async (tx: TransactionSql): Promise<void> => {
      await pay(within(tx), '1')
      outside = Promise.allSettled([pay(host, '1.5'), pay(host, '1.5')])
      // Other records of the same organization aren't blocked.
      await createInvoice(host)
    }
    await (how === 'commit' ? opened.sql().begin(work) : rollBack(opened.sql(), work))
    const refused = (await outside).flatMap((result) =>
      result.status === 'rejected' ? [result.reason.code] : [],
    )
    const invoice = (await host.list('invoices')).find(({ id }) => id === invoiceId)
    assert.deepEqual(refused, how === 'commit' ? ['overpayment'] : [])
    assert.deepEqual(
      [invoice?.status, invoice?.amountPaid],
      how === 'commit' ? ['partially_paid', '2.500'] : ['paid', '3.000'],
    )
  }
})

test('a delivery loop delivers committed events but none that were rolled back', async (t) => {
  const { within, ...host } = await newHost()
  const receiver = await startReceiver(t)
  const sender = createWebhookSender(DEVELOPMENT)
  const settings = createDeveloperSettings(host.store, { ...DEVELOPMENT, allowPlaintextSecrets: true })
  await settings.endpoints.register(host.organizationId, { url: `${receiver.origin}/hook` })
  const loop = createDeliveryLoop(host.store, sender, { allowPlaintextSecrets: true, logger: false })
  t.after(() => sender.close())

  await rollBack(opened.sql(), (tx) => invoiceIn(within(tx), 'paid'))
  await opened.sql().begin(async (tx) => {
    await invoiceIn(within(tx), 'paid')
    await loop.runOnce()
    assert.deepEqual(receiver.requests, [], 'it has not committed yet')
  })
  await loop.runOnce()
  const sent = receiver.requests.map(({ body }) => JSON.parse(body))
  const events = await host.events()
  assert.deepEqual(new Set(sent), new Set(events))
  assert.equal(sent.length, 3)
})
