import assert from 'node:assert/strict'
import { appendFile, mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { dirname } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { HttpResponse, http } from 'msw'
import { setupServer } from 'msw/node'
import {
  add,
  createSubscriber,
  keepPaid,
  listInvoices,
  type Paid,
  readPaid,
  reconcile,
} from '../../examples/reconcile-invoices.ts'
import { createApiClient } from '../../lib/client.ts'
import { createIds, type Invoice } from '../../lib/index.ts'
import {
  assertRefusals,
  bodyOf,
  freeUrl,
  listen,
  post,
  startPlatform,
  type TestPlatform,
  temporaryPath,
} from './_platform.ts'
import { endProgram, readBaseUrl, startSource } from './_program.ts'

const SECRET = 'whsec_test'
const ids = createIds()
let numbers = 0

function invoiceOf(
  currency: string,
  total: string,
  amountPaid: string,
  amountDue: string,
  status = amountDue.replaceAll(/[0.]/g, '') === '' ? 'paid' : 'partially_paid',
): Invoice {
  numbers++
  const issueDate = '2026-01-02T03:04:05.006Z'
  const dueDate = '2026-02-01T00:00:00.000Z'
  return {
    id: ids('inv'),
    number: `INV-${numbers}`,
    status,
    currency,
    issueDate,
    dueDate,
    total,
    amountPaid,
    amountDue,
  }
}

const paidOf = ({ id, number }: Invoice): Paid => ({ invoiceId: id, number })

describe('examples/reconcile-invoices with the real API', () => {
  let platform: TestPlatform
  before(async () => {
    platform = await startPlatform()
  })
  after(() => platform.close())

  async function create(...invoices: Invoice[]): Promise<void> {
    const { organizationId, store } = platform
    const creation = { organizationId, events: [], idempotency: null }
    await Promise.all(invoices.map((record) => store.invoices.create({ ...creation, record })))
  }

  /** An invoice of the platform's users: issued, not paid. */
  async function issue(currency: string, total: string): Promise<Invoice> {
    const { organizationId, calls } = platform
    const dueDate = new Date(Date.now() + 30 * 86_400_000)
    const { id } = await calls.invoices.create(organizationId, { currency, total, dueDate })
    return calls.invoices.issue(organizationId, { invoiceId: id })
  }

  const pay = ({ id }: Invoice, amount: string) =>
    platform.calls.invoices.recordPayment(platform.organizationId, { invoiceId: id, amount })

  test('examples/reconcile-invoices joins the list and invoice.paid, also of an invoice that the list has lost', {
    timeout: 60_000,
  }, async () => {
    const path = temporaryPath('paid.ndjson')
    const url = await freeUrl()
    const secret = await platform.register(url)
    const env = {
      API_URL: platform.url,
      API_KEY: platform.key,
      SIGNING_SECRET: secret,
      PORT: new URL(url).port,
    }
    const args = ['examples/reconcile-invoices.ts', path, '50']
    const oldest = await issue('TND', '10.000')
    const settled = await issue('TND', '1250.000')
    await pay(settled, '250.000')
    const open = await issue('JPY', '900')
    const drafts = Array.from({ length: 198 }, () => invoiceOf('EUR', '1.00', '0.00', '1.00', 'draft'))
    await create(...drafts)

    const program = startSource(args, env)
    await readBaseUrl(program)
    const openNow = `Open: \\[ '${open.number} 900 JPY', '${settled.number} 1000.000 TND' \\]\nPaid: \\[\\]`
    await program.prints(new RegExp(openNow))
    await pay(settled, '1000.000')
    await pay(oldest, '10.000')
    await platform.deliver()
    const openThen = `'1250.000' *│ *'1250.000' *│ *'0.000'[^]*Open: \\[ '${open.number} 900 JPY' \\]\n`
    await program.prints(new RegExp(`${openThen}Paid: \\[ '${settled.number}', '${oldest.number}' \\]`))
    program.signal('SIGKILL')
    await program.exit

    const again = startSource(args, env)
    await again.prints(new RegExp(`Paid: \\[ '${settled.number}', '${oldest.number}' \\]`))
    await platform.redeliverAll()
    await platform.deliver()
    assert.deepEqual(new Set((await readPaid(path)).map(({ number }) => number)).size, 2)
    await endProgram(again)
    assert.equal(await again.exit, 0)
    const output = program.stdout() + program.stderr() + again.stdout() + again.stderr()
    assert.ok(!output.includes(platform.key) && !output.includes(secret))
  })

  test('examples/reconcile-invoices sums the listed invoices to the last minor unit', async () => {
    const invoices = [
      invoiceOf('BHD', '0.100', '0.100', '0.000'),
      invoiceOf('BHD', '0.200', '0.000', '0.200'),
      invoiceOf('KWD', '999999999999.999', '0.001', '999999999999.998'),
      invoiceOf('KWD', '0.001', '0.001', '0.000'),
    ]
    await create(...invoices)
    const page = await listInvoices(createApiClient(platform.api))
    const { totals } = reconcile(page, [])
    assert.deepEqual(totals.get('BHD'), { total: '0.300', amountPaid: '0.100', amountDue: '0.200' })
    assert.deepEqual(totals.get('KWD'), {
      total: '1000000000000.000',
      amountPaid: '0.002',
      amountDue: '999999999999.998',
    })
  })
})

describe('examples/reconcile-invoices by itself', () => {
  const network = setupServer()
  before(() => network.listen({ onUnhandledRequest: 'error' }))
  after(() => network.close())

  const LIST_URL = 'https://app.example/api/v1/invoices'
  const options = { url: 'https://app.example', key: 'bapi_live_secret', maxRetries: 0 }
  const list = () => listInvoices(createApiClient(options))

  test('examples/reconcile-invoices reports the time to wait when the API asks for a wait', async () => {
    for (const [status, retryAfter, retryAfterMs] of [
      [429, '7', 7000],
      [503, '120', 120_000],
      [503, 'soon', null],
    ] as const) {
      const headers = { 'Retry-After': retryAfter }
      network.use(http.get(LIST_URL, () => new HttpResponse(null, { status, headers })))
      await assert.rejects(list(), { name: 'ApiError', status, retryAfterMs })
    }
  })

  test('examples/reconcile-invoices reports nothing rather than a part', async () => {
    for (const answer of [
      () => HttpResponse.error(),
      () => new HttpResponse('{"error":"Internal error"}', { status: 500 }),
      () => new HttpResponse('{"data":[{"id":"inv_1"'),
      () => HttpResponse.json({}),
      () => HttpResponse.json(null),
    ]) {
      network.use(http.get(LIST_URL, answer))
      await assert.rejects(list(), (error) => !String(error).includes('bapi_live_secret'))
    }
  })

  test('reconcile() sorts invoices into open and paid, and leaves out invoices without a debt', () => {
    const open = invoiceOf('EUR', '10.00', '9.99', '0.01')
    const paid = invoiceOf('EUR', '5.00', '5.00', '0.00')
    const draft = invoiceOf('EUR', '7.00', '0.00', '7.00', 'draft')
    const cancelled = invoiceOf('EUR', '8.00', '0.00', '8.00', 'void')
    assert.deepEqual(reconcile([open, draft, paid, cancelled], []), {
      open: [open],
      paid: [paid],
      unlisted: [],
      totals: new Map([['EUR', { total: '15.00', amountPaid: '14.99', amountDue: '0.01' }]]),
    })
  })

  test('reconcile() believes an event over an older page, also a repeated event', () => {
    const [tnd, jpy] = [
      invoiceOf('TND', '1250.000', '250.000', '1000.000'),
      invoiceOf('JPY', '900', '0', '900'),
    ]
    const unlisted: Paid = { invoiceId: 'inv_old', number: 'INV-OLD' }
    const report = reconcile([tnd, jpy], [paidOf(jpy), unlisted, paidOf(tnd), unlisted, paidOf(jpy)])
    assert.deepEqual(report, {
      open: [],
      paid: [
        { ...tnd, status: 'paid', amountPaid: '1250.000', amountDue: '0.000' },
        { ...jpy, status: 'paid', amountPaid: '900', amountDue: '0' },
      ],
      unlisted: [unlisted],
      totals: new Map([
        ['TND', { total: '1250.000', amountPaid: '1250.000', amountDue: '0.000' }],
        ['JPY', { total: '900', amountPaid: '900', amountDue: '0' }],
      ]),
    })
  })

  test('reconcile() adds a thousand random amounts exactly, with any number of decimals', () => {
    for (const decimals of [0, 2, 3, 4]) {
      const units = Array.from({ length: 1000 }, () => BigInt(Math.floor(Math.random() * 2 ** 50)))
      const amounts = units.map((unit) => decimalOf(unit, decimals))
      const sum = units.reduce((total, unit) => total + unit, 0n)
      assert.equal(amounts.reduce(add, '0'), decimalOf(sum, decimals))
    }
    assert.equal(add('0.1', '0.2'), '0.3')
    assert.equal(add('0', '0.005'), '0.005')
    assert.equal(add('9.99', '0.01'), '10.00')
  })

  test('readPaid() reads the whole lines around a line that was cut short anywhere', async () => {
    const [first, second] = [
      { invoiceId: 'inv_1', number: 'INV-{1}' },
      { invoiceId: 'inv_2', number: 'INV-2' },
    ]
    const line = JSON.stringify(first)
    const path = temporaryPath('paid.ndjson')
    assert.deepEqual(await readPaid(path), [])
    for (let length = 0; length < line.length; length++) {
      await writeFile(path, '')
      await keepPaid(path, first)
      await appendFile(path, `\n${line.slice(0, length)}`)
      await keepPaid(path, second)
      assert.deepEqual(await readPaid(path), [first, second])
    }
  })

  test('examples/reconcile-invoices answers 500 while a payment cannot be kept, and 204 afterwards', async (t) => {
    network.close()
    t.after(() => network.listen({ onUnhandledRequest: 'error' }))
    t.mock.method(console, 'error', () => {})
    const path = temporaryPath('missing/paid.ndjson')
    const server = createSubscriber(SECRET, (paid) => keepPaid(path, paid))
    t.after(() => server.close())
    const url = await listen(server)
    const paid: Paid = { invoiceId: 'inv_1', number: 'INV-1' }
    const body = bodyOf('evt_1', 'invoice.paid', paid)
    assert.equal(await post(url, body, SECRET), 500)
    await mkdir(dirname(path))
    assert.equal(await post(url, body, SECRET), 204)
    assert.equal(await post(url, bodyOf('evt_2', 'project.completed', { projectId: 'proj_1' }), SECRET), 204)
    await assertRefusals(url, bodyOf('evt_3', 'invoice.paid', paid), SECRET)
    assert.deepEqual(await readPaid(path), [paid])
  })

  /** Runs the program against an API that answers every request alike; gives the program and the paths of the requests. */
  async function run(t: TestContext, answer: (path: string) => Response) {
    network.close()
    t.after(() => network.listen({ onUnhandledRequest: 'error' }))
    const paths: string[] = []
    const server = createServer(async (request, response) => {
      paths.push(request.url ?? '')
      const { status, headers, body } = answer(request.url ?? '')
      response.writeHead(status, Object.fromEntries(headers)).end(await new Response(body).text())
    })
    t.after(() => server.close())
    const url = await listen(server)
    const port = new URL(await freeUrl()).port
    const env = { API_URL: `${url}/`, API_KEY: 'bapi_live_secret', SIGNING_SECRET: SECRET, PORT: port }
    const args = ['examples/reconcile-invoices.ts', temporaryPath('paid.ndjson'), '50']
    const program = startSource(args, env)
    t.after(() => program.signal('SIGKILL'))
    return { program, paths }
  }

  test('examples/reconcile-invoices finds the API under an address with a slash at the end', {
    timeout: 60_000,
  }, async (t) => {
    const { program } = await run(t, (path) =>
      path.startsWith('/api/v1/invoices?')
        ? Response.json({ data: [] })
        : new Response('no', { status: 404 }),
    )
    await program.prints(/Open: \[\]/)
  })

  test('examples/reconcile-invoices asks once when the API asks for a wait that no timer holds', {
    timeout: 60_000,
  }, async (t) => {
    const headers = { 'Retry-After': '9999999' }
    const { program, paths } = await run(t, () => new Response('{}', { status: 429, headers }))
    while (paths.length === 0) await sleep(20)
    await sleep(2000)
    assert.equal(paths.length, 1)
    assert.match(program.stderr(), /Cannot reconcile, next try in 86400000 ms/)
  })

  test('examples/reconcile-invoices names the missing setting', async () => {
    const env = { API_URL: 'http://127.0.0.1:9', API_KEY: 'bapi_live_x\n', SIGNING_SECRET: SECRET }
    const program = startSource(['examples/reconcile-invoices.ts', 'paid.ndjson'], env)
    assert.equal(await program.exit, 2)
    assert.match(program.stderr(), /^Usage: API_URL=.*\n$/)
    assert.ok(!program.stderr().includes('bapi_live_x'))
  })
})

function decimalOf(units: bigint, decimals: number): string {
  const digits = String(units).padStart(decimals + 1, '0')
  return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}
