import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Sql } from 'postgres'
import { createBusinessApi, SCOPES } from '../../lib/index.ts'
import { createPlatform, type ImportRecord } from '../../lib/platform.ts'
import type { PostgresStore } from '../../lib/postgres.ts'
import { createDeveloperSettings } from '../../lib/settings.ts'
import { createDeliveryLoop, createWebhookSender, type Notice } from '../../lib/webhooks.ts'
import { startReceiver } from './_life-receiver.ts'
import { insist } from './_life-volume.ts'

// An organization of a long life that uses everything for real: the API over HTTP, the loop and its sender, a receiver that verifies,
// and the host's calls about money.

const DAY_MS = 24 * 60 * 60 * 1000
const DEVELOPMENT = { allowHttp: true, allowPrivateNetworks: true }
const CLIENTS_A_DAY = 4
const INVOICES_A_DAY = 3
const CURRENCIES = [
  { currency: 'TND', decimals: 3 },
  { currency: 'EUR', decimals: 2 },
  { currency: 'JPY', decimals: 0 },
] as const

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

/** An invoice of the ledger, with money in minor units. */
interface LedgerInvoice {
  readonly id: string
  readonly number: string
  readonly decimals: number
  readonly total: bigint
  paid: bigint
  status: string
}

/** The customer of a long life. */
export interface Customer {
  readonly organizationId: string
  /** The work of a day. */
  live(day: number): Promise<void>
  /** Attempts all due deliveries and does the loop's maintenance. */
  runLoop(): Promise<void>
  /** Compares the ledger with the database and with what arrived. */
  audit(sql: Sql): Promise<string>
  close(): Promise<void>
}

/** Sets up the customer. */
export async function createCustomer(
  store: PostgresStore,
  organizationId: string,
  { secretKeys, retentionMs }: { readonly secretKeys: readonly string[]; readonly retentionMs: number },
): Promise<Customer> {
  const settings = createDeveloperSettings(store, { ...DEVELOPMENT, secretKeys })
  const platform = createPlatform(store)
  const api = createBusinessApi(store, { logger: false })
  const server = createServer(api)
  const receiver = await startReceiver()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1`
  const notices: Notice[] = []
  const sender = createWebhookSender(DEVELOPMENT)
  const loop = createDeliveryLoop(store, sender, {
    secretKeys,
    retentionMs,
    markOverdue: true,
    logger: false,
    onNotice: (notice) => void notices.push(notice),
  })

  const endpointIds = new Map<string, string>()
  let key = await settings.apiKeys.create(organizationId, { name: 'Life', scopes: SCOPES })
  for (const path of ['always', 'sometimes']) {
    const endpoint = await settings.endpoints.register(organizationId, { url: `${receiver.url}/${path}` })
    receiver.secrets.set(`/${path}`, [endpoint.secret])
    endpointIds.set(`/${path}`, endpoint.id)
  }

  const clients = new Set<string>()
  const replies = new Map<string, string>()
  const invoices = new Map<string, LedgerInvoice>()
  const due: { readonly day: number; readonly work: () => Promise<void> }[] = []
  let requests = 0
  let replays = 0

  /** Asks until the database answers. */
  function ask(path: string, init: RequestInit): Promise<Answer> {
    return insist(async () => {
      const response = await fetch(`${base}${path}`, init)
      requests++
      const { status, headers } = response
      const body = await response.text()
      if (status === 503 || status === 409)
        throw Object.assign(new Error(body), { code: 'store_unavailable' })
      return { status, headers, body }
    })
  }

  /** The records from before the upgrade read as they were written. */
  async function post(
    name: string,
    idempotencyKey: string,
    isReplay = false,
    token = key.key,
  ): Promise<void> {
    const answer = await ask('/clients', {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        'idempotency-key': idempotencyKey,
      },
      body: JSON.stringify({ name }),
    })
    assert.equal(answer.status, 200, answer.body)
    if (isReplay) {
      assert.equal(answer.headers.get('idempotent-replayed'), 'true', 'a replay within the window')
      assert.equal(answer.body, replies.get(idempotencyKey))
      replays++
      return
    }
    const { id } = JSON.parse(answer.body).data
    assert.ok(!clients.has(id), 'a new client after the window')
    clients.add(id)
    replies.set(idempotencyKey, answer.body)
  }

  async function createClients(day: number): Promise<void> {
    await Promise.all(
      Array.from({ length: CLIENTS_A_DAY }, (_, n) => post(`Client ${day}/${n}`, `c-${day}-${n}`)),
    )
    if (day % 3 === 0) later(day + 5, () => post(`Client ${day}/0`, `c-${day}-0`, true))
    // Seven days and some hours later the key is as new.
    if (day % 7 === 0) later(day + 8, () => post(`Client ${day}/1`, `c-${day}-1`))
  }

  function later(day: number, work: () => Promise<void>): void {
    due.push({ day, work })
  }

  async function createInvoices(day: number): Promise<void> {
    for (let n = 0; n < INVOICES_A_DAY; n++) await createInvoice(day, n)
  }

  async function createInvoice(day: number, n: number): Promise<void> {
    const { currency, decimals } = CURRENCIES[(day + n) % CURRENCIES.length] ?? CURRENCIES[0]
    const total = BigInt(100_000 + ((day * 7919 + n * 104_729) % 899_999))
    const reference = `i-${day}-${n}`
    const dueDate = new Date(Date.now() + 10 * DAY_MS)
    const draft = { currency, total: money(total, decimals), dueDate, idempotencyKey: reference }
    const { id, number } = await insist(() => platform.invoices.create(organizationId, draft))
    const invoice: LedgerInvoice = { id, number, decimals, total, paid: 0n, status: 'draft' }
    invoices.set(id, invoice)
    if ((day + n) % 11 === 0) {
      const call = { invoiceId: id, idempotencyKey: `v-${day}-${n}` }
      invoice.status = (await insist(() => platform.invoices.void(organizationId, call))).status
      return
    }
    const issue = { invoiceId: id, idempotencyKey: `s-${day}-${n}` }
    invoice.status = (await insist(() => platform.invoices.issue(organizationId, issue))).status
    const part = total / 3n
    const delay = (day + n) % 7 === 0 ? 15 : 1
    later(day + delay, () => pay(invoice, part, `p1-${day}-${n}`))
    later(day + delay + 2, () => pay(invoice, total - part, `p2-${day}-${n}`))
  }

  async function pay(invoice: LedgerInvoice, amount: bigint, idempotencyKey: string): Promise<void> {
    const call = { invoiceId: invoice.id, amount: money(amount, invoice.decimals), idempotencyKey }
    const { invoice: after } = await insist(() => platform.invoices.recordPayment(organizationId, call))
    invoice.paid += amount
    invoice.status = after.status
  }

  async function rotateKey(day: number): Promise<void> {
    const previous = key
    key = await insist(() => settings.apiKeys.rotate(organizationId, previous.id))
    await post(`Old key ${day}`, `o-${day}`, false, previous.key)
    later(day + 2, async () => {
      const headers = { authorization: `Bearer ${previous.key}` }
      const { status } = await ask('/clients?limit=1', { headers })
      assert.equal(status, 401, 'a key after the overlap')
    })
  }

  async function rotateSecret(path: string): Promise<void> {
    const id = endpointIds.get(path) ?? ''
    const { secret } = await settings.endpoints.rotateSecret(organizationId, id)
    receiver.secrets.set(path, [secret])
  }

  async function importRecords(day: number): Promise<void> {
    const records: ImportRecord[] = []
    for (let n = 0; n < 20; n++) {
      const business = { id: `biz_old-${day}-${n}`, name: `Imported ${day}/${n}` }
      const convertedAt = '2020-01-01T00:00:00.000Z'
      const client = { id: `cli_old-${day}-${n}`, status: 'active', convertedAt, business } as const
      records.push({ kind: 'client', record: client })
      clients.add(client.id)
    }
    for (let n = 0; n < 5; n++) {
      const [id, number] = [`inv_old-${day}-${n}`, `OLD-${day}-${n}`]
      const total = 1000n + BigInt(day)
      const date = '2020-01-01T00:00:00.000Z'
      const payments = [{ id: `pay_old-${day}-${n}`, amount: money(total, 2), receivedAt: date }]
      const record = { id, number, status: 'paid', currency: 'EUR', issueDate: date, dueDate: date } as const
      records.push({ kind: 'invoice', record: { ...record, total: money(total, 2), payments } })
      invoices.set(id, { id, number, decimals: 2, total, paid: total, status: 'paid' })
    }
    const first = await insist(() => platform.import(organizationId, records))
    assert.deepEqual(first.different, [])
    assert.equal(first.added + first.known, records.length)
    assert.equal((await insist(() => platform.import(organizationId, records))).known, records.length)
  }

  return {
    organizationId,
    async live(day) {
      for (const { work } of due.filter((item) => item.day <= day)) await work()
      due.splice(0, due.length, ...due.filter((item) => item.day > day))
      await createClients(day)
      await createInvoices(day)
      if (day % 12 === 5) await rotateKey(day)
      if (day % 9 === 4) await insist(() => rotateSecret('/always'))
      if (day % 15 === 6) await importRecords(day)
    },

    runLoop: async () => {
      await insist(() => loop.runOnce())
    },

    async audit(sql) {
      const behind = notices.filter(({ kind }) => kind === 'retention_behind')
      assert.deepEqual(behind, [], 'the purge keeps up')
      assert.deepEqual(receiver.forged, [], 'every arrived event is signed')
      await auditMoney(sql, organizationId, invoices)
      const [row] = await sql`
        select count(*)::int as clients from business_api.businesses where organization_id = ${organizationId}`
      assert.equal(row?.clients, clients.size, 'every client once')
      for (const path of ['/always', '/sometimes']) {
        const settled = [...invoices.values()].filter(({ id, status }) => status === 'paid' && !isOld(id))
        for (const { id } of settled)
          assert.equal(
            receiver.eventsAbout(path, 'invoice.paid', id).size,
            1,
            `${id} is paid once at ${path}`,
          )
        const arrived = receiver.countOf(path, 'client.created')
        const old = [...clients].filter(isOld).length
        assert.equal(arrived, clients.size - old, `every client.created once at ${path}`)
      }
      const overdue = receiver.countOf('/always', 'invoice.overdue')
      return (
        `${requests} requests, ${replays} replays, ${clients.size} clients, ${invoices.size} invoices, ` +
        `${overdue} overdue, ${receiver.arrivals} arrivals`
      )
    },

    async close() {
      await sender.close()
      receiver.server.close()
      receiver.server.closeAllConnections()
      server.close()
      server.closeAllConnections()
    },
  }
}

/** True for a record that was imported, or written before the upgrade: no event reports these. */
function isOld(id: string): boolean {
  return /_(old|before)-/.test(id)
}

/** Writes minor units as a decimal string. */
function money(amount: bigint, decimals: number): string {
  if (decimals === 0) return String(amount)
  const digits = String(amount).padStart(decimals + 1, '0')
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

async function auditMoney(
  sql: Sql,
  organizationId: string,
  ledger: ReadonlyMap<string, LedgerInvoice>,
): Promise<void> {
  const rows = await sql`
    select i.id, i.number, i.status, i.minor_units, i.representation::jsonb ->> 'total' as total,
           i.representation::jsonb ->> 'amountPaid' as paid,
           (select round(coalesce(sum(p.amount), 0), i.minor_units)::text from business_api.payments p
             where p.organization_id = i.organization_id and p.invoice_id = i.id) as payments
      from business_api.invoices i where i.organization_id = ${organizationId}`
  assert.equal(rows.length, ledger.size, 'every invoice once')
  const series = new Map<string, number[]>()
  for (const { id, number, status, total, paid, payments } of rows) {
    const invoice = ledger.get(id)
    assert.ok(invoice, `nobody made ${id}`)
    assert.deepEqual(
      [number, total, paid, payments],
      [
        invoice.number,
        money(invoice.total, invoice.decimals),
        money(invoice.paid, invoice.decimals),
        money(invoice.paid, invoice.decimals),
      ],
    )
    // The loop marks invoices overdue.
    if (status !== 'overdue') assert.equal(status, invoice.status, number)
    else assert.match(invoice.status, /issued|partially_paid|overdue/)
    const [, year, place] = /^INV-(\d{4})-(\d+)$/.exec(number) ?? []
    if (year !== undefined) series.set(year, [...(series.get(year) ?? []), Number(place)])
  }
  for (const [year, places] of series) {
    const sorted = places.sort((one, other) => one - other)
    assert.deepEqual(
      sorted,
      sorted.map((_, index) => index + 1),
      `numbers of ${year} have no gap`,
    )
  }
}
