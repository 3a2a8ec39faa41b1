import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import postgres, { type Sql } from 'postgres'
import { BusinessApiError, createBusinessApi } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { writeGrants } from '../../lib/postgres/schema/grants.ts'
import { createPostgresStore, type PostgresPlatform, type PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { untilWaiting } from '../_waiting.ts'
import { type Organization, type Platform, request, startPlatform } from '../api/_api.ts'
import { EVERYTHING, setUp } from '../settings-page/_page.ts'

// Things that PostgreSQL rejects at the last moment: a record whose parent is deleted by another connection between the
// lookup and the write, and values that violate a rule of the database.

let platform: Platform
let sql: Sql
let host: PostgresPlatform
let hostStore: PostgresStore
let org: Organization

before(async () => {
  platform = await startPlatform()
  ;({ sql } = platform)
  hostStore = createPostgresStore(platform.databaseUrl)
  host = createPlatform(hostStore)
  org = await platform.organization()
})
after(async () => {
  await hostStore.close()
  await platform.close()
})

/**
 * Starts work while a row is being deleted by another connection, and commits the deletion once `work` is waiting for
 * the row.
 */
async function whileDeleting<T>(table: string, id: string, work: () => Promise<T>): Promise<T> {
  let started: Promise<T> | undefined
  await sql.begin(async (tx) => {
    const { count } =
      await tx`delete from ${tx(`business_api.${table}`)} where organization_id = ${org.id} and id = ${id}`
    assert.equal(count, 1)
    started = work()
    started.catch(() => {})
    await untilWaiting(sql)
  })
  if (started === undefined) throw new Error('nothing was started')
  return started
}

describe('A write whose parent is deleted in the meantime', () => {
  const business = async (): Promise<string> => (await host.businesses.create(org.id, { name: 'Atlas' })).id
  const post = (businessId: string, headers: Record<string, string> = {}) =>
    request(platform.api, '/api/v1/leads', { key: org.key, json: { businessId }, headers })

  async function assertNotFound(businessId: string, headers?: Record<string, string>): Promise<void> {
    const { status, text } = await whileDeleting('businesses', businessId, () => post(businessId, headers))
    assert.equal(status, 404, text)
    assert.match(text, /Business not found/)
  }

  test('POST /leads returns 404, with and without an idempotency key', async () => {
    await assertNotFound(await business(), { 'Idempotency-Key': 'first' })
    await assertNotFound(await business())
    assert.equal((await post(await business())).status, 200)
    await assertNotFound(await business())
    await assertNotFound(await business(), { 'Idempotency-Key': 'second' })
    assert.deepEqual(platform.failures, [])
  })

  test('leads.create() is not_found, even in the host’s transaction', async () => {
    const [one, other] = [await business(), await business()]
    const notFound = { name: 'BusinessApiError', code: 'not_found' }
    const create = () => host.leads.create(org.id, { businessId: one })
    await assert.rejects(whileDeleting('businesses', one, create), notFound)
    const inTransaction = () => sql.begin((tx) => host.using(tx).leads.create(org.id, { businessId: other }))
    await assert.rejects(whileDeleting('businesses', other, inTransaction), notFound)
  })

  test('an imported lead is not_found', async () => {
    const id = await business()
    const importLead = () =>
      host.import(org.id, [
        {
          kind: 'lead',
          record: {
            id: 'lead_gone',
            businessId: id,
            stage: 'new',
            leadScore: null,
            expectedValue: null,
            createdAt: '2026-01-01T00:00:00.000Z',
          },
        },
      ])
    await assert.rejects(whileDeleting('businesses', id, importLead), { code: 'not_found' })
  })

  const invoice = async () => {
    const dueDate = new Date(Date.now() + 86_400_000)
    const { id } = await host.invoices.create(org.id, { currency: 'EUR', total: '5', dueDate })
    await host.invoices.issue(org.id, { invoiceId: id })
    return id
  }

  test('invoices.recordPayment() is not_found, even in the host’s transaction', async () => {
    const [one, other] = [await invoice(), await invoice()]
    const pay = () => host.invoices.recordPayment(org.id, { invoiceId: one, amount: '5' })
    await assert.rejects(whileDeleting('invoices', one, pay), { code: 'not_found' })
    const inTransaction = () =>
      sql.begin((tx) => host.using(tx).invoices.recordPayment(org.id, { invoiceId: other, amount: '5' }))
    await assert.rejects(whileDeleting('invoices', other, inTransaction), { code: 'not_found' })
  })
})

describe('A value that violates a rule the host has added to the database', () => {
  before(async () => {
    await sql.unsafe(`
      alter table business_api.businesses
        add constraint no_spam check (name <> 'Spam'), alter column name set not null, add column host_rank smallint;
      create unique index one_phone on business_api.businesses (organization_id, phone);
      create function public.judge() returns trigger language plpgsql as $$
      begin
        if new.city = 'overflow' then new.host_rank := 70000; end if;
        if new.city = 'cast' then new.host_rank := 'x'::text::smallint; end if;
        if new.city = 'missing' then new.name := null; end if;
        if new.city = 'fault' then new.host_rank := 1 / (length(new.city) - 5); end if;
        return new;
      end $$;
      create trigger judge before insert on business_api.businesses for each row execute function public.judge();
      alter table business_api.webhook_endpoints add constraint no_spam check (description is distinct from 'Spam');
      alter table business_api.api_keys add constraint no_spam check (name <> 'Spam')`)
  })

  const CASES: readonly (readonly [what: string, sqlstate: string, json: Record<string, string>])[] = [
    ['a check constraint', '23514', { name: 'Spam' }],
    ['a unique index', '23505', { name: 'Atlas', phone: '1' }],
    ['a number out of range', '22003', { name: 'Atlas', city: 'overflow' }],
    ['a text that is no number', '22P02', { name: 'Atlas', city: 'cast' }],
    ['a value that is missing', '23502', { name: 'Atlas', city: 'missing' }],
  ]

  for (const [what, sqlstate, json] of CASES)
    test(`${what} (${sqlstate}): POST /clients returns 422, the host gets the cause, clients.create() is invalid_input`, async () => {
      await host.businesses.create(org.id, { name: 'First', phone: '1' }).catch(() => {})
      platform.failures.length = 0
      const { status, text } = await request(platform.api, '/api/v1/clients', { key: org.key, json })
      assert.equal(status, 422, text)
      assert.equal(JSON.parse(text).error, 'Validation failed: a value violates a constraint of the database')
      const [failure] = platform.failures
      assert.ok(failure?.error instanceof BusinessApiError)
      assert.equal(failure.error.code, 'invalid_input')
      assert.equal(Reflect.get(Object(failure.error.cause), 'code'), sqlstate)
      await assert.rejects(host.clients.create(org.id, json as { name: string }), {
        name: 'BusinessApiError',
        code: 'invalid_input',
      })
    })

  test('is logged as an error, with the rule and the SQLSTATE', async () => {
    const lines: unknown[] = []
    const error = (details: object, message: string) => lines.push({ message, ...details })
    const logger = { debug() {}, info() {}, warn() {}, error }
    const api = createBusinessApi(hostStore, { logger })
    const { status } = await request(api, '/api/v1/clients', { key: org.key, json: { name: 'Spam' } })
    assert.equal(status, 422)
    const [line] = lines as { message: string; error: Record<string, string> }[]
    assert.equal(line?.message, 'Request failed')
    assert.equal(line?.error.causeCode, '23514')
    assert.equal(line?.error.message, 'Cannot write the record because it breaks no_spam')
  })

  test('an error that is caused by a statement and not by a value (22012) is still a 500', async () => {
    const json = { name: 'Atlas', city: 'fault' }
    const { status } = await request(platform.api, '/api/v1/clients', { key: org.key, json })
    assert.equal(status, 500)
    await assert.rejects(host.clients.create(org.id, json), { name: 'PostgresError', code: '22012' })
  })

  test('the settings calls return invalid_input too, and the settings page reports it', async () => {
    const settings = createDeveloperSettings(hostStore, {
      allowPlaintextSecrets: true,
      allowHttp: true,
      allowPrivateNetworks: true,
    })
    const under = setUp({ store: hostStore, wrap: () => settings })
    const expected = { code: 'invalid_input', message: 'Cannot write the record because it breaks no_spam' }
    const endpoint = { url: 'http://127.0.0.1:9999/', description: 'Spam' }
    await assert.rejects(settings.endpoints.register(org.id, endpoint), expected)
    await assert.rejects(
      settings.apiKeys.create(org.id, { name: 'Spam', scopes: ['clients:read'] }),
      expected,
    )
    under.access = { ...EVERYTHING, organizationId: org.id }
    const { status } = await under.submit('/endpoints/new', { ...endpoint, wants: 'all' })
    assert.equal(status, 400)
    assert.deepEqual(
      under.errors.map((error) => Reflect.get(Object(error), 'message')),
      [expected.message],
    )
  })
})

test('GET /clients never returns 500 for a token or time, however large its numbers are', async () => {
  const NINES = '9'.repeat(19)
  const positions = ['c', 't'].flatMap((order) =>
    [
      `${NINES} ${NINES} ${NINES} ${NINES} x`,
      `-${NINES} 0 - - `,
      `1 ${NINES} - ${NINES} ${'x'.repeat(256)}`,
    ].map((rest) => `v1 ${order} ${rest}`),
  )
  const times = ['9999-12-31T23:59:59.999999Z', '1000-01-01T00:00:00.000000Z', '2026-01-01T24:00:00.000000Z']
  positions.push(...times.map((time) => `v1 t ${NINES} ${time} ${NINES} x`))
  const tokens = positions.map((position) => Buffer.from(position).toString('base64url'))
  for (const since of [
    ...tokens,
    ...times,
    '0000-01-01T00:00:00Z',
    '0001-01-01T00:00:00+23:59',
    '9999-12-31T23:59:59-23:59',
  ]) {
    const path = `/api/v1/clients?updatedSince=${encodeURIComponent(since)}`
    const { status, text } = await request(platform.api, path, { key: org.key })
    assert.equal(status, 200, `${since} ${Buffer.from(since, 'base64url')} ${text}`)
  }
})

test('organizations.delete() by a role without the privileges reports the missing grant', async (context) => {
  const role = `half_eraser_${Math.random().toString(36).slice(2)}`
  context.after(() => sql.unsafe(`drop owned by ${role}; drop role ${role}`))
  await sql.unsafe(`create role ${role}`)
  const grants = writeGrants([{ part: 'eraser', role }])
  for (const grant of grants) await sql.unsafe(grant)
  await sql.unsafe(`revoke select on business_api.api_keys from ${role}`)
  const pool = postgres(platform.databaseUrl, { max: 1, connection: { role } })
  await using store = createPostgresStore(pool)
  const settings = createDeveloperSettings(store, { allowPlaintextSecrets: true })
  await assert.rejects(settings.organizations.delete(org.id), {
    code: 'missing_privilege',
    message:
      /^Cannot delete because of permission denied for table api_keys: grant select.*, delete on business_api.api_keys to "ROLE"$/,
  })
  // If it isn't a table privilege that's missing, PostgreSQL's message says what is.
  for (const grant of grants) await sql.unsafe(grant)
  await sql.unsafe(`revoke usage on schema business_api from ${role}`)
  await assert.rejects(
    store.organizations.forgetPart({
      organizationId: org.id,
      businessId: 'biz_1',
      proposalIds: [],
      limit: 1,
      after: null,
    }),
    {
      code: 'missing_privilege',
      message:
        "Cannot forget because of permission denied for schema business_api: see 'business-api-kit grants --eraser ROLE'",
    },
  )
  await pool.end()
})
