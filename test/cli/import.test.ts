import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, test } from 'node:test'
import { createPlatform, type Platform } from '../../lib/platform.ts'
import { createPostgresStore, type PostgresStore } from '../../lib/postgres.ts'
import { createTestDatabase, type TestDatabase } from '../_database.ts'
import { assertFailed, cliOn, jsonOf, type Result, textOf } from './_cli.ts'
import { newOrganization } from './_settings.ts'

// Imports records from lines of JSON.

let database: TestDatabase
let store: PostgresStore
let platform: Platform
let directory: string

before(async () => {
  database = await createTestDatabase()
  store = createPostgresStore(database.url, { maxConnections: 2 })
  platform = createPlatform(store)
  directory = await mkdtemp(join(tmpdir(), 'import-'))
})

after(async () => {
  await store.close()
  await database.drop()
  await rm(directory, { recursive: true })
})

const MOMENT = '2019-03-14T09:26:53.589Z'

function importing(input: string | Uint8Array, ...args: readonly string[]): Promise<Result> {
  return cliOn(database.url, { input })('import', '-', ...args)
}

function ndjson(...lines: readonly object[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('')
}

function project(id: string, name = 'Site'): object {
  return { kind: 'project', record: { id, name, status: 'active', billingType: 'fixed', value: 1 } }
}

/** Lines as in an export, which have fields next to the record. */
const EXPORTED = [
  {
    kind: 'business',
    record: { id: 'biz_1', name: 'Atlas "&" 🏺', category: null, city: null, email: null, phone: null },
  },
  {
    kind: 'lead',
    record: {
      id: 'lead_1',
      stage: 'won',
      leadScore: 62,
      scoreBand: 'warm',
      expectedValue: null,
      createdAt: MOMENT,
    },
    businessId: 'biz_1',
  },
  {
    kind: 'proposal',
    record: {
      id: 'prop_1',
      number: 'P-1',
      title: 'Site',
      status: 'accepted',
      version: 2,
      total: 10.5,
      monthlyTotal: 0,
      currency: 'TND',
    },
    minorUnits: 3,
    signedBy: 'Olga',
    signedAt: MOMENT,
  },
  {
    kind: 'invoice',
    record: {
      id: 'inv_1',
      number: 'INV-2019-0007',
      status: 'partially_paid',
      currency: 'JPY',
      issueDate: MOMENT,
      dueDate: MOMENT,
      total: '900',
      amountPaid: '300',
      amountDue: '600',
    },
    minorUnits: 0,
  },
  { kind: 'payment', record: { id: 'pay_1', invoiceId: 'inv_1', amount: '300', receivedAt: MOMENT } },
  project('proj_1'),
]

test('import writes the lines of an export, and importing them again changes nothing', async () => {
  const org = newOrganization()
  const first = await importing(ndjson(...EXPORTED), '-o', org)
  assert.equal(textOf(first), 'Added 6 of 6 records; 0 were there already, 0 differ\n')
  assert.deepEqual((await platform.proposals.get(org, 'prop_1')).signature, {
    signedBy: 'Olga',
    signedAt: MOMENT,
  })
  assert.equal((await platform.leads.get(org, 'lead_1')).businessId, 'biz_1')
  assert.equal((await platform.invoices.payments(org, 'inv_1')).data.length, 1)
  const again = jsonOf(await importing(ndjson(...EXPORTED), '-o', org, '--json'))
  assert.deepEqual(again, { check: false, lines: 6, added: 0, known: 6, different: 0, leftOut: {} })
})

test('import reads a file with more lines than a batch, including empty ones', async () => {
  const org = newOrganization()
  const file = join(directory, 'projects.ndjson')
  await writeFile(
    file,
    ndjson(...Array.from({ length: 1201 }, (_, index) => project(`proj_${index}`))).replace('\n', '\n\n\r\n'),
  )
  const result = jsonOf(await cliOn(database.url)('import', file, '-o', org, '--json'))
  assert.deepEqual(result, { check: false, lines: 1201, added: 1201, known: 0, different: 0, leftOut: {} })
})

test('import --check reports the same as an import but writes nothing', async () => {
  const org = newOrganization()
  const result = jsonOf(
    await importing(ndjson(...EXPORTED, project('proj_1')), '-o', org, '--json', '--check'),
  )
  assert.deepEqual(result, { check: true, lines: 7, added: 6, known: 1, different: 0, leftOut: {} })
  assert.deepEqual((await platform.businesses.list(org)).data, [])
  const bad = ndjson(...EXPORTED, {
    kind: 'lead',
    record: { id: 'lead_2', stage: 'new', createdAt: MOMENT, businessId: 'biz_2' },
  })
  assertFailed(
    await importing(bad, '-o', org, '--check'),
    1,
    /line 7 \(lead lead_2\) because the organization has no business/,
  )
})

test('import reports the invalid line and field, and the records that were written', async () => {
  const org = newOrganization()
  assertFailed(
    await importing('{"kind"', '-o', org),
    1,
    /Cannot import line 1 because it is not JSON; nothing was written/,
  )
  const projects = Array.from({ length: 600 }, (_, index) => project(`proj_${index}`))
  assertFailed(
    await importing(ndjson(...projects, { kind: 'project', record: { id: 'proj_x' } }), '-o', org),
    1,
    /Cannot import line 601 \(project proj_x\) because name must be given.*; the 500 records before its batch are done/,
  )
})

test('import lists records that differ, keeps them, and exits with 1', async () => {
  const org = newOrganization()
  await importing(ndjson(project('proj_1'), project('proj_2')), '-o', org)
  const result = await importing(
    ndjson(project('proj_1'), project('proj_2', 'Other'), project('proj_3')),
    '-o',
    org,
  )
  assert.equal(result.exitCode, 1)
  assert.equal(result.stdout, 'Added 1 of 3 records; 1 were there already, 1 differ\n')
  assert.match(result.stderr, /Different, and left as it was: line 2 \(project proj_2\)/)
  assert.equal((await platform.projects.get(org, 'proj_2')).name, 'Site')

  const business = { id: 'biz_1', name: 'Atlas' }
  const client = {
    id: 'cli_1',
    status: 'active',
    convertedAt: MOMENT,
    business: { ...business, name: 'Other' },
  }
  await importing(ndjson({ kind: 'business', record: business }), '-o', org)
  const partly = await importing(ndjson({ kind: 'client', record: client }), '-o', org)
  assert.equal(partly.stdout, 'Added 1 of 1 records; 0 were there already, 1 differ\n')
  assert.match(partly.stderr, /left as it was: line 1 \(client cli_1\): its business biz_1/)
})

test('import rejects a line that is not UTF-8 and writes none of it', async () => {
  const org = newOrganization()
  const text = ndjson(project('proj_1'), project('proj_2', 'Müller'))
  for (const [encoding, line] of [
    ['latin1', 2],
    ['utf16le', 1],
  ] as const) {
    const bytes = Buffer.from(encoding === 'utf16le' ? `\ufeff${text}` : text, encoding)
    assertFailed(
      await importing(bytes, '-o', org),
      1,
      new RegExp(`Cannot import line ${line} because it is not UTF-8; nothing was written`),
    )
  }
  assert.deepEqual((await platform.projects.list(org)).data, [])
})

test('import accepts a byte order mark, Windows line endings, and line separators inside strings', async () => {
  const org = newOrganization()
  const name = 'one\u2028two\u2029three'
  const text = ndjson(project('proj_1', name), project('proj_2')).replaceAll('\n', '\r\n')
  assert.equal(jsonOf(await importing(`\ufeff${text}`, '-o', org, '--json')).added, 2)
  assert.equal((await platform.projects.get(org, 'proj_1')).name, name)
  const unended = ndjson(project('proj_3')).trimEnd()
  assert.equal(jsonOf(await importing(unended, '-o', org, '--json')).added, 1)
})

test('import rejects a line that is too long without reading all of it', async () => {
  let read = 0
  async function* endless(): AsyncIterable<Buffer> {
    yield Buffer.from(ndjson(project('proj_1')))
    for (; read < 400; read++) yield Buffer.alloc(2 ** 16, ' ')
  }
  const input = Readable.from(endless())
  assertFailed(
    await cliOn(database.url, { input })('import', '-', '-o', newOrganization()),
    1,
    /Cannot import line 2 because it is longer than 8 MiB; nothing was written/,
  )
  assert.ok(read < 140, String(read))
})

test("import fails if the file can't be read", async () => {
  const missing = await cliOn(database.url)('import', join(directory, 'none'), '-o', newOrganization())
  assertFailed(missing, 1, /Cannot read .*none: ENOENT/)
})

test('import reads what export prints, and exporting the copy prints the same', async () => {
  const [from, to] = [newOrganization(), newOrganization()]
  const { business } = await platform.clients.create(from, {
    name: 'Atlas "&" Söhne \\ 🏺\nzwei',
    city: 'Tunis',
  })
  await platform.leads.create(from, { businessId: business.id, leadScore: 61.5, expectedValue: 0.001 })
  const { id: proposalId } = await platform.proposals.create(from, {
    title: 'Site',
    total: 4800.5,
    currency: 'TND',
  })
  await platform.proposals.send(from, { proposalId })
  await platform.proposals.accept(from, { proposalId, signedBy: 'Olga' })
  const dueDate = '2099-01-31T00:00:00.000Z'
  const { id: invoiceId } = await platform.invoices.create(from, { currency: 'JPY', total: '900', dueDate })
  await platform.invoices.issue(from, { invoiceId })
  await platform.invoices.recordPayment(from, { invoiceId, amount: '300' })
  const { payment } = await platform.invoices.recordPayment(from, { invoiceId, amount: '600' })
  await platform.invoices.reversePayment(from, { invoiceId, paymentId: payment.id })
  await platform.projects.create(from, { name: 'Site', billingType: 'fixed', value: 12.5 })

  const { stdout } = await cliOn(database.url)('export', '-o', from)
  assert.equal(stdout.split('\n').length, 10)
  const result = jsonOf(await importing(stdout, '-o', to, '--json'))
  assert.deepEqual(result, { check: false, lines: 9, added: 9, known: 0, different: 0, leftOut: {} })
  assert.equal((await cliOn(database.url)('export', '-o', to)).stdout, stdout)
  assert.equal(jsonOf(await importing(stdout, '-o', from, '--json')).known, 9)
})

test('import shows up to 200 characters of an unknown field name, with invisible characters escaped', async () => {
  const record = { id: 'proj_x', ['x'.repeat(100_000)]: 1, 'a\u009bb': 1 }
  const { stderr } = await importing(ndjson({ kind: 'project', record }), '--organization', newOrganization())
  assert.match(stderr, /it has unknown fields: x{200}, a\\u\{9b\}b/)
  assert.ok(stderr.length < 1000, String(stderr.length))
})
