// Reconciles the platform's invoices using the list and invoice.paid. Reports the open invoices, the paid ones, and the
// totals per currency. The list has the newest invoices, and events tell us about older ones. Amounts stay decimal
// strings and are added as whole minor units, because in floating point 0.1 + 0.2 is 0.30000000000000004.
//
//   API_URL=https://app.example API_KEY=bapi_live_… SIGNING_SECRET=whsec_… PORT=4000 \
//     npx tsx examples/reconcile-invoices.ts paid-invoices.ndjson

import { realpathSync } from 'node:fs'
import { appendFile, readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type ApiClient,
  ApiError,
  createApiClient,
  type EventData,
  type Invoice,
} from 'business-api-kit/client'
import { receiveWebhook, WebhookError } from 'business-api-kit/webhooks'

/** Id and number of an invoice. Amounts aren't needed, because the event is only sent when nothing is due anymore. */
export type Paid = EventData<'invoice.paid'>
/** The totals of one currency. */
export type Totals = Pick<Invoice, 'total' | 'amountPaid' | 'amountDue'>

/** The state of the invoices. Drafts and void invoices aren't included because nothing is owed on them. */
export interface Report {
  readonly open: readonly Invoice[]
  readonly paid: readonly Invoice[]
  /** Paid invoices that are too old for the list. Look up their amounts by number in your own books. */
  readonly unlisted: readonly Paid[]
  /** Totals by currency. */
  readonly totals: ReadonlyMap<string, Totals>
}

/** Combines the list with the events, which may be repeated and in any order. */
export function reconcile(page: readonly Invoice[], events: readonly Paid[]): Report {
  const told = new Map(events.map((paid) => [paid.invoiceId, paid]))
  const invoices = page
    .filter(({ status }) => status !== 'draft' && status !== 'void')
    // The list may be older than the event. Paid is final, so the event is right.
    .map((invoice) => (told.has(invoice.id) ? settle(invoice) : invoice))
  for (const { id } of page) told.delete(id)
  const totals = new Map<string, Totals>()
  for (const { currency, total, amountPaid, amountDue } of invoices) {
    const sum = totals.get(currency) ?? { total: '0', amountPaid: '0', amountDue: '0' }
    totals.set(currency, {
      total: add(sum.total, total),
      amountPaid: add(sum.amountPaid, amountPaid),
      amountDue: add(sum.amountDue, amountDue),
    })
  }
  const isOpen = ({ amountDue }: Invoice): boolean => /[1-9]/.test(amountDue)
  const paid = invoices.filter((invoice) => !isOpen(invoice))
  return { open: invoices.filter(isOpen), paid, unlisted: [...told.values()], totals }
}

function settle(invoice: Invoice): Invoice {
  const nothing = toDecimal(0n, countDecimals(invoice.total))
  return { ...invoice, status: 'paid', amountPaid: invoice.total, amountDue: nothing }
}

/** Adds decimal strings exactly. For example, "0.100" and "0.200" is "0.300". */
export function add(a: string, b: string): string {
  const decimals = Math.max(countDecimals(a), countDecimals(b))
  return toDecimal(toMinorUnits(a, decimals) + toMinorUnits(b, decimals), decimals)
}

function countDecimals(decimal: string): number {
  return decimal.split('.')[1]?.length ?? 0
}

function toMinorUnits(decimal: string, decimals: number): bigint {
  const [whole, fraction = ''] = decimal.split('.')
  return BigInt(`${whole}${fraction.padEnd(decimals, '0')}`)
}

function toDecimal(units: bigint, decimals: number): string {
  const digits = String(units).padStart(decimals + 1, '0')
  return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`
}

/** Returns a page of the newest invoices. */
export async function listInvoices(api: ApiClient): Promise<readonly Invoice[]> {
  for await (const { data } of api.invoices.list().pages()) return data
  return []
}

/**
 * Creates a subscriber that responds with 2xx if an invoice.paid was stored, 5xx if it couldn't be stored, and 4xx if
 * the request isn't a verified event.
 */
export function createSubscriber(secret: string, keep: (paid: Paid) => Promise<void>): Server {
  return createServer(async (request, response) => {
    const status = await receive(request, secret, keep).catch((error) => {
      console.error(`Cannot receive a webhook: ${error}`)
      return error instanceof WebhookError ? error.status : 500
    })
    response.writeHead(status).end()
  })
}

async function receive(
  request: IncomingMessage,
  secret: string,
  keep: (paid: Paid) => Promise<void>,
): Promise<number> {
  const { event } = await receiveWebhook(request, { secret })
  // Storing a paid invoice twice makes no difference, so we don't need to check for repeated events.
  if (event.type === 'invoice.paid') await keep(event.data)
  return 204
}

/** Appends a payment to the file. The line break comes first so that an incomplete line doesn't break the next one. */
export async function keepPaid(path: string, paid: Paid): Promise<void> {
  await appendFile(path, `\n${JSON.stringify(paid)}`, { flush: true })
}

/** Returns all invoice.paid events so far. */
export async function readPaid(path: string): Promise<Paid[]> {
  const text = await readFile(path, { encoding: 'utf8', flag: 'a+' })
  return text.split('\n').flatMap(parseLine)
}

/** Returns nothing if the line is incomplete because of a crash. Its event got no response, so it's sent again. */
function parseLine(line: string): [Paid] | [] {
  try {
    return [JSON.parse(line)]
  } catch {
    return []
  }
}

/** Expected failures don't need a stack trace. */
function fail(line: string): never {
  console.error(line)
  process.exit(2)
}

async function main(): Promise<void> {
  const { API_URL, API_KEY = '', SIGNING_SECRET, PORT = '4000' } = process.env
  const [path, intervalMs = 60_000] = process.argv.slice(2)
  // Check the key here, because an error about an invalid header would include the key.
  if (!API_URL || !/^[!-~]+$/.test(API_KEY) || !SIGNING_SECRET || !path || !(Number(intervalMs) > 0)) {
    fail(
      'Usage: API_URL=… API_KEY=… SIGNING_SECRET=… npx tsx examples/reconcile-invoices.ts FILE [INTERVAL_MS]',
    )
  }
  const api = createApiClient({ url: API_URL, key: API_KEY })
  const server = createSubscriber(SIGNING_SECRET, (paid) => keepPaid(path, paid))
  server.listen(Number(PORT), () => console.log('Listening on', server.address()))
  process.once('SIGTERM', () => server.close(() => process.exit()))
  for (;;) {
    let waitMs = Number(intervalMs)
    try {
      print(reconcile(await listInvoices(api), await readPaid(path)))
    } catch (error) {
      if (error instanceof ApiError) waitMs = Math.max(waitMs, error.retryAfterMs ?? 0)
      // Whatever the failure (even a rejected key), the subscriber continues to store payments.
      console.error(`Cannot reconcile, next try in ${waitMs} ms: ${error}`)
    }
    await sleep(waitMs)
  }
}

function print({ totals, open, paid, unlisted }: Report): void {
  console.table(Object.fromEntries(totals))
  console.log(
    'Open:',
    open.map(({ number, amountDue, currency }) => `${number} ${amountDue} ${currency}`),
  )
  console.log(
    'Paid:',
    [...paid, ...unlisted].map(({ number }) => number),
  )
}

if (process.argv[1] && realpathSync(process.argv[1]) === import.meta.filename) await main()
