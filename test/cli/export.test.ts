import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from 'postgres'
import { createPlatform } from '../../lib/platform.ts'
import { rehearse } from '../../lib/postgres/rehearsal.ts'
import { withSnapshot } from '../../lib/postgres/snapshot.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { RECORD_KINDS } from '../../lib/resources/records.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cliOn, type Result } from './_cli.ts'
import { newOrganization } from './_settings.ts'

// Exports an organization's records as lines of JSON.

let database: TestDatabase
let sql: Sql
let store: PostgresStore
let run: (...args: readonly string[]) => Promise<Result>

before(async () => {
  database = await createTestDatabase()
  sql = database.sql({ max: 1 })
  store = createPostgresStore(database.url, { maxConnections: 2 })
  run = cliOn(database.url)
})

after(async () => {
  await store.close()
  await database.drop()
})

/** Work that reads from the database as often as it likes. */
type Work = (read: () => Promise<unknown>) => Promise<void>

async function exported(
  ...args: readonly string[]
): Promise<{ kind: string; record: Record<string, unknown> }[]> {
  const { exitCode, stdout, stderr } = await run('export', ...args)
  assert.equal(exitCode, 0, stderr)
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
}

test('export prints every record like the API does, with additional fields that an import needs', async () => {
  const org = newOrganization()
  const platform = createPlatform(store)
  const client = await platform.clients.create(org, { name: 'Atlas "&" Söhne \\ 🏺\nzwei', city: 'Tunis' })
  const lead = await platform.leads.create(org, { businessId: client.business.id, leadScore: 61.5 })
  const draft = await platform.proposals.create(org, { title: 'Website', total: 4800.5, currency: 'TND' })
  await platform.proposals.send(org, { proposalId: draft.id })
  const proposal = await platform.proposals.accept(org, { proposalId: draft.id, signedBy: 'Olga' })
  const invoice = await platform.invoices.create(org, {
    currency: 'JPY',
    total: '900',
    dueDate: '2099-01-31T00:00:00.000Z',
  })
  await platform.invoices.issue(org, { invoiceId: invoice.id })
  await platform.invoices.recordPayment(org, { invoiceId: invoice.id, amount: '300' })
  const project = await platform.projects.create(org, { name: 'Site', billingType: 'fixed', value: 12.5 })
  await platform.clients.create(newOrganization(), { name: 'Stranger' })

  const lines = await exported('-o', org)
  assert.deepEqual(
    lines.map(({ kind }) => kind),
    ['business', 'client', 'lead', 'proposal', 'invoice', 'payment', 'project'],
  )
  const [first, second, third, fourth, fifth, payment, last] = lines
  assert.deepEqual(first, { kind: 'business', record: client.business })
  assert.deepEqual(second, { kind: 'client', record: client })
  assert.deepEqual(third, { kind: 'lead', record: lead, businessId: client.business.id })
  const { signedAt, ...signed } = fourth as unknown as { signedAt: string }
  assert.deepEqual(signed, { kind: 'proposal', record: proposal, minorUnits: 3, signedBy: 'Olga' })
  assert.match(signedAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.deepEqual([fifth?.record.amountDue, fifth?.record.status], ['600', 'partially_paid'])
  assert.deepEqual([payment?.record.invoiceId, payment?.record.amount], [invoice.id, '300'])
  assert.deepEqual(last, { kind: 'project', record: project })
})

test('export reads page by page, with each record once and only the selected kinds', async () => {
  const org = newOrganization()
  await sql`
    insert into business_api.businesses (organization_id, id, name)
    select ${org}, 'biz_' || lpad(n::text, 26, '0'), 'Business ' || n from generate_series(1, 1501) as n`
  const { stdout, stderr } = await run('export', '-o', org, '--kinds', 'project,business')
  const lines = stdout.split('\n').filter(Boolean)
  assert.equal(new Set(lines.map((line) => JSON.parse(line).record.id)).size, 1501)
  assert.equal(lines.length, 1501)
  assert.equal(stderr, 'Exported 1,501 businesses, 0 projects\n')
  assert.deepEqual(await exported('-o', newOrganization()), [])
  assertFailed(
    await run('export', '-o', org, '--kinds', 'house'),
    2,
    /--kinds must be one or more of business/,
  )
})

test('export shows the records at one point in time, so they can be imported whatever is written in the meantime', async () => {
  const org = newOrganization()
  const platform = createPlatform(store)
  const { business } = await platform.clients.create(org, { name: 'Atlas' })
  const invoice = { currency: 'JPY', total: '900', dueDate: '2099-01-31T00:00:00.000Z' }
  const { id: invoiceId } = await platform.invoices.create(org, invoice)
  await platform.invoices.issue(org, { invoiceId })
  let lines = ''
  await withSnapshot(database.url, async (readPage) => {
    for (const kind of RECORD_KINDS) {
      lines += (await readPage(org, kind, null, 500)).lines.map((line) => `${line}\n`).join('')
      // Adds a business with a lead, and a payment, after the page of businesses and invoices was read.
      const late = await platform.businesses.create(org, { name: 'Late' })
      await platform.leads.create(org, { businessId: late.id })
      await platform.invoices.recordPayment(org, { invoiceId, amount: '1' })
    }
  })
  const kinds = lines.match(/"kind":"[a-z]+"/g)
  assert.deepEqual(kinds, ['"kind":"business"', '"kind":"client"', '"kind":"invoice"'])
  assert.ok(lines.includes(business.id))
  const imported = await cliOn(database.url, { input: lines })(
    'import',
    '-',
    '-o',
    newOrganization(),
    '--json',
  )
  assert.equal(JSON.parse(imported.stdout).added, 3)
})

for (const [name, run] of [
  [
    'an export',
    (work: Work) => withSnapshot(database.url, (readPage) => work(() => readPage('o', 'client', null, 1))),
  ],
  [
    'an import that is only checked',
    (work: Work) => rehearse(database.url, store, (records) => work(() => records.imports.write('o', []))),
  ],
] as const) {
  test(`the transaction of ${name} fails if its session is ended between two statements`, async () => {
    const failing = run(async (read: () => Promise<unknown>) => {
      await read()
      const ended = await sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and state = 'idle in transaction'`
      assert.equal(ended.length, 1)
      await sleep(50)
      await read()
    })
    await assert.rejects(failing, { code: 'store_unavailable' })
    await sleep(50)
  })
}

test('export escapes invisible characters without changing the values', async () => {
  const owner = newOrganization()
  const name = 'a\u0085b\u009bc\u007f\u202ed\u{e0041}'
  await createPlatform(store).clients.create(owner, { name })
  const { stdout } = await run('export', '--organization', owner, '--all')
  assert.doesNotMatch(stdout, /(?!\n)[\p{Cc}\p{Cf}]/u)
  const records = stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
  assert.equal(records.find(({ kind }) => kind === 'business')?.record.name, name)
})
