import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import postgres from 'postgres'
import { createBusinessApi } from '../../lib/index.ts'
import { createPlatform } from '../../lib/platform.ts'
import { createPostgresStore, type DatabaseOptions, migrate } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, createWebhookSender, receiveWebhook } from '../../lib/webhooks.ts'

const DAY_MS = 86_400_000

/** Settings that may be configured differently for a database or a role. Each one is tested separately. */
export const SETTINGS: readonly (readonly [name: string, value: string])[] = [
  ['array_nulls', 'off'],
  ['quote_all_identifiers', 'on'],
  ['transform_null_equals', 'on'],
  ['row_security', 'off'],
  ['search_path', 'evil, pg_catalog'],
  ['default_transaction_isolation', 'serializable'],
  ['default_transaction_isolation', 'repeatable read'],
  ['default_transaction_deferrable', 'on'],
  ['bytea_output', 'escape'],
  ['intervalstyle', 'sql_standard'],
  ['datestyle', 'German, DMY'],
  ['standard_conforming_strings', 'off'],
  ['backslash_quote', 'off'],
  ['escape_string_warning', 'off'],
  ['lc_numeric', 'C'],
  ['timezone', 'America/St_Johns'],
  ['extra_float_digits', '-15'],
  ['xmloption', 'document'],
  ['plan_cache_mode', 'force_generic_plan'],
  ['jit', 'on'],
  ['jit_above_cost', '0'],
  ['enable_seqscan', 'off'],
  ['enable_indexscan', 'off'],
  ['statement_timeout', '20s'],
  ['idle_in_transaction_session_timeout', '100ms'],
  ['client_min_messages', 'debug1'],
  ['check_function_bodies', 'off'],
  ['default_toast_compression', 'pglz'],
  ['session_replication_role', 'replica'],
  ['synchronous_commit', 'off'],
]

/** Where a setting is configured: `alter database`, or `alter role` for the role in this database. */
export type Settable = 'database' | 'role'

/** Configures a setting for all later sessions. */
export async function alter(url: string, of: Settable, name: string, value: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  const whose = of === 'role' ? 'role current_user in database' : 'database'
  await sql.unsafe(`
    create schema if not exists evil;
    do $$ begin execute format('alter ${whose} %I set ${name} = %L', current_database(), '${value}'); end $$`)
  await sql.end()
}

/**
 * Goes through everything a database is used for, using only the public API: migration, keys, creates, replays, lists,
 * syncs, transitions, payments, webhooks with a failure and a rotation, redeliveries, the logs, retention and erasure.
 * Throws if a result is wrong.
 *
 * @param url connection string of a user that may create the schema, or of a pooler if this has already run once
 *   without one
 */
export async function live(url: string, options: DatabaseOptions = {}): Promise<void> {
  await migrate(url, { logger: false })
  await using store = createPostgresStore(url, options)
  const settings = createDeveloperSettings(store, {
    allowPlaintextSecrets: true,
    allowPrivateNetworks: true,
    allowHttp: true,
  })
  const platform = createPlatform(store)
  const api = createBusinessApi(store)
  const org = `org_${Math.random().toString(36).slice(2)}`

  // The subscriber fails once and then verifies.
  const received: string[] = []
  let secret = ''
  let isDown = true
  const subscriber = createServer(async (request, response) => {
    try {
      if (isDown) throw new Error('down')
      const { event } = await receiveWebhook(request, { secret })
      received.push(event.type)
      response.writeHead(204).end()
    } catch {
      response.writeHead(400).end()
    }
  }).listen(0, '127.0.0.1')
  await once(subscriber, 'listening')
  const { port } = subscriber.address() as AddressInfo
  await using sender = createWebhookSender({ localDevelopment: true })
  const loop = createDeliveryLoop(store, sender, {
    allowPlaintextSecrets: true,
    onNotice: () => {},
    logger: false,
    retryDelaysMs: [0, 0, 0, 0],
  })

  try {
    const created = await settings.apiKeys.create(org, {
      name: 'Über',
      scopes: ['clients:read', 'clients:write', 'leads:read', 'leads:write', 'invoices:read'],
    })
    const endpoint = await settings.endpoints.register(org, {
      url: `http://127.0.0.1:${port}/`,
      headers: { 'X-Tenant': 'a\\b' },
    })
    secret = endpoint.secret
    const call = async (method: string, path: string, body?: unknown, idempotencyKey?: string) => {
      const reply = await api(
        new Request(`http://api/api/v1${path}`, {
          method,
          headers: {
            authorization: `Bearer ${created.key}`,
            ...(body === undefined ? {} : { 'content-type': 'application/json' }),
            ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        }),
      )
      return { status: reply.status, token: reply.headers.get('sync-token'), text: await reply.text() }
    }

    const business = { name: 'Žluťoučký \\ "kůň" {a,null}', city: 'Übersee', phone: '\\x41' }
    const first = await call('POST', '/clients', business, 'k-1')
    assert.equal(first.status, 200, first.text)
    assert.deepEqual(await call('POST', '/clients', business, 'k-1'), first)
    const { data: client } = JSON.parse(first.text)
    assert.equal(client.business.name, business.name)
    const listed = await call('GET', '/clients')
    assert.deepEqual(JSON.parse(listed.text).data, [client])
    const lead = await call('POST', '/leads', { businessId: client.business.id })
    assert.equal(lead.status, 200, lead.text)
    const { data: won } = JSON.parse(lead.text)
    await platform.leads.setStage(org, { leadId: won.id, stage: 'qualified' })
    await platform.businesses.update(org, { businessId: client.business.id, category: 'Ťé' })
    const since = await call('GET', '/clients?updatedSince=2000-01-01T00:00:00Z')
    assert.equal(since.status, 200, since.text)
    assert.equal(JSON.parse(since.text).data[0]?.business.category, 'Ťé', since.text)
    assert.ok(since.token)
    const later = await call('GET', `/clients?updatedSince=${encodeURIComponent(since.token)}`)
    assert.equal(later.status, 200, later.text)

    const invoice = await platform.invoices.create(org, {
      currency: 'TND',
      total: '1250.500',
      dueDate: new Date(Date.now() + DAY_MS),
    })
    await platform.invoices.issue(org, { invoiceId: invoice.id })
    await platform.invoices.recordPayment(org, { invoiceId: invoice.id, amount: '0.500' })
    await platform.invoices.recordPayment(org, { invoiceId: invoice.id, amount: '1250' })
    const invoices = await call('GET', '/invoices')
    assert.deepEqual(
      JSON.parse(invoices.text).data.map((one: { status: string; amountPaid: string }) => [
        one.status,
        one.amountPaid,
      ]),
      [['paid', '1250.500']],
    )

    await loop.runOnce()
    isDown = false
    const rotated = await settings.endpoints.rotateSecret(org, endpoint.id, { overlapMs: 0 })
    secret = rotated.secret
    assert.equal(received.length, 0)
    const failed = await settings.deliveries.list(org, { states: ['failed'] })
    assert.ok(failed.data.length >= 5, `${failed.data.length} failed deliveries`)
    const { attemptLog } = await settings.deliveries.get(org, failed.data[0]?.id ?? '')
    assert.equal(attemptLog.length, 5)
    await settings.deliveries.recover(org, { since: new Date(Date.now() - DAY_MS) })
    await loop.runOnce()
    assert.equal(received.length, failed.data.length)
    assert.ok(received.includes('invoice.paid'))
    assert.ok((await settings.events.list(org)).data.length >= 5)
    assert.ok((await settings.audit.list(org)).data.length >= 3)
    assert.equal((await settings.activity(org)).endpoints.length, 1)

    await store.deliveries.purge({ eventsAfterMs: 30 * DAY_MS, limit: 100 })
    await settings.apiKeys.revoke(org, created.id)
    assert.equal((await call('GET', '/clients')).status, 401)
    await settings.organizations.delete(org)
    assert.deepEqual((await platform.clients.list(org)).data, [])
  } finally {
    await loop.stop()
    subscriber.closeAllConnections()
    subscriber.close()
  }
}
