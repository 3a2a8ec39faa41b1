import type { AdmissionRequest, AdmittedPage, PageRequest, Since } from '../../lib/access/admission.ts'
import type { Resource, Scope } from '../../lib/access/scopes.ts'
import type { IdKind } from '../../lib/base/ids.ts'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import { BusinessSchema } from '../../lib/resources/businesses.ts'
import type { Client } from '../../lib/resources/clients.ts'
import { type ColumnType, columnsOf } from '../../lib/resources/columns.ts'
import type { Invoice } from '../../lib/resources/invoices.ts'
import type { Lead, LeadRow } from '../../lib/resources/leads.ts'
import type { Proposal } from '../../lib/resources/proposals.ts'
import { PLAIN_RESOURCES } from '../../lib/resources/records.ts'
import type { Creation, CreationOutcome, KeyReservation, NumberedOutcome } from '../../lib/writes/creation.ts'
import type { EventRecord } from '../../lib/writes/event-envelope.ts'
import { businessOf } from '../_business.ts'
import { ids, type Tenant } from './tenant.ts'

// All listed kinds of records, with a common interface, so that the common rules can be tested for each of them.

/** A resource. */
export interface Kind {
  readonly name: string
  readonly scope: Scope
  /** Items that together contain every field with all values that could easily get lost. */
  readonly examples: readonly { readonly id: string }[]
  admitAndList(
    store: BusinessApiStore,
    request: AdmissionRequest,
    asked: PageRequest,
  ): Promise<AdmittedPage<unknown>>
  /** Creates a record. Returns the item, and a function to send the same creation again. */
  create(tenant: Tenant, attempt?: Attempt): Promise<Attempted>
}

/** A creation to try. */
export interface Attempt {
  /** Defaults to a simple record with a new id. */
  readonly item?: { readonly id: string }
  /** None by default. */
  readonly events?: readonly EventRecord[]
  readonly idempotency?: KeyReservation
  /** None by default, as if called by the host's own code. */
  readonly apiKeyId?: string
  /** Defaults to the tenant's first store. */
  readonly store?: BusinessApiStore
}

/** A creation that was tried, and its outcome. */
export interface Attempted {
  readonly id: string
  readonly outcome: Outcome
  /** Sends exactly the same creation again. */
  again(store?: BusinessApiStore): Promise<Outcome>
}

/** The outcome of any creation. */
export type Outcome = CreationOutcome | { readonly outcome: 'no_business' }

interface Slice<Item, NewRecord> {
  admitAndList(request: AdmissionRequest, asked: PageRequest): Promise<AdmittedPage<Item>>
  create(creation: Creation<NewRecord>): Promise<Outcome | NumberedOutcome>
}

interface KindOf<Item extends { id: string }, NewRecord> {
  readonly idKind: IdKind
  /** Returns the record of an item. */
  toRecord(item: Item, tenant: Tenant): Promise<NewRecord> | NewRecord
  /**
   * One or more records. A simple record is the first one with a different id and different values where these
   * must be unique.
   */
  readonly examples: readonly [Item, ...Item[]]
  plain(example: Item, id: string): Item
}

function kind<Item extends { id: string }, NewRecord>(name: Resource, of: KindOf<Item, NewRecord>): Kind {
  const sliceOf = (store: BusinessApiStore): Slice<Item, NewRecord> =>
    store[name] as object as Slice<Item, NewRecord>
  return {
    name,
    scope: `${name}:read`,
    examples: of.examples,
    admitAndList: (store, request, asked) => sliceOf(store).admitAndList(request, asked),
    async create(tenant, { item, events = [], idempotency, apiKeyId, store = tenant.store } = {}) {
      const created = (item as Item | undefined) ?? of.plain(of.examples[0], ids(of.idKind))
      const creation: Creation<NewRecord> = {
        organizationId: tenant.id,
        ...(apiKeyId !== undefined && { apiKeyId }),
        record: await of.toRecord(created, tenant),
        events,
        idempotency: idempotency ?? null,
      }
      const send = async (through: BusinessApiStore): Promise<Outcome> =>
        withoutNumber(await sliceOf(through).create(creation))
      return { id: created.id, outcome: await send(store), again: (other = store) => send(other) }
    },
  }
}

/** Removes the number, so that all kinds have the same fields. Numbers have their own tests. */
function withoutNumber(outcome: Outcome | NumberedOutcome): Outcome {
  return outcome.outcome === 'created' ? { outcome: 'created' } : outcome
}

// --- Values that could easily get lost ---

const TEXTS = [
  'O\'Brien & "Söhne" <b>株式会社</b> \\ / 🏺',
  'a\nb\r\nc\td\be\ff\u0001\u001f\u007f\u0085\u2028\u2029\ufeff',
  'e\u0301 is not \u00e9',
  '  {"a": [null, \'$1\', #{x}, %s, --]};  ',
  'null',
  'العربية עברית 👩‍👩‍👧‍👦 \u{10ffff}',
] as const
/** Thousandths, zero, and the largest numbers that both numeric(15,3) and a double can represent exactly. */
const NUMBERS = [0.1, 1234567.891, 0, -12.5, 99_999_999_999.999, 0.001] as const
const TIMES = [
  '2026-03-14T09:26:53.589Z',
  '1970-01-01T00:00:00.000Z',
  '9999-12-31T23:59:59.999Z',
  '2024-02-29T23:59:59.010Z',
  '2026-10-25T00:30:00.100Z',
  '2000-01-01T00:00:00.001Z',
] as const

/** Creates an item for each set of values. */
function examplesOf<Item>(
  make: (text: string, number: number, time: string, index: number) => Item,
): readonly [Item, ...Item[]] {
  const [first, ...rest] = TEXTS.map((text, index) =>
    make(text, NUMBERS[index] ?? 0, TIMES[index] ?? TIMES[0], index),
  )
  if (first === undefined) throw new Error('Cannot make examples because there are no texts')
  return [first, ...rest]
}

const clientExamples = examplesOf<Client>((text, number, time, index) => ({
  id: ids('cli'),
  status: index === 1 ? text : 'active',
  totalRevenue: number,
  monthlyRevenue: NUMBERS[(index + 1) % NUMBERS.length] ?? 0,
  convertedAt: time,
  business: businessOf({
    // Each field is null, empty and a string once.
    ...Object.fromEntries(
      Object.keys(BusinessSchema.entries).map((field, at) => [field, [null, '', text][(index + at) % 3]]),
    ),
    id: ids('biz'),
    name: text,
  }),
}))

const leadExamples = examplesOf<Lead>((text, number, time, index) => ({
  id: ids('lead'),
  stage: index === 2 ? text : 'new',
  leadScore: [null, 0, 39.5, 100][index % 4] ?? null,
  scoreBand: index % 4 === 0 ? null : text,
  expectedValue: index === 3 ? null : number,
  createdAt: time,
}))

// Amounts as [currency, total, paid, due], with the decimals of each currency and more digits than a double can hold.
const MONEY = [
  ['TND', '1250.000', '250.000', '1000.000'],
  ['JPY', '900', '0', '900'],
  ['EUR', '12.50', '12.50', '0.00'],
  ['TND', '0.001', '0.000', '0.001'],
  ['CLF', '1.0000', '0.1000', '0.9000'],
  ['USD', '99999999999999.99', '0.01', '99999999999999.98'],
] as const

const invoiceExamples = examplesOf<Invoice>((text, _number, time, index) => {
  const [currency, total, amountPaid, amountDue] = MONEY[index] ?? MONEY[0]
  return {
    id: ids('inv'),
    number: `${index} ${text}`,
    status: 'issued',
    currency,
    issueDate: time,
    dueDate: TIMES[(index + 1) % TIMES.length] ?? time,
    total,
    amountPaid,
    amountDue,
  }
})

const proposalExamples = examplesOf<Proposal>((text, number, _time, index) => ({
  id: ids('prop'),
  number: `${index} ${text}`,
  title: text,
  status: 'draft',
  version: [1, 2, 2_147_483_647][index % 3] ?? 1,
  total: number,
  monthlyTotal: NUMBERS[(index + 1) % NUMBERS.length] ?? 0,
  currency: ['TND', 'JPY', 'EUR'][index % 3] ?? 'TND',
}))

// --- The kinds ---

type PlainName = keyof typeof PLAIN_RESOURCES

/** The creations of a resource with plain records. Each column contains a value of its type. */
function plainKind(name: PlainName): Kind {
  const { idKind, ...table } = PLAIN_RESOURCES[name]
  const columns = columnsOf(table).filter(({ field }) => field !== 'id')
  return kind<{ id: string }, object>(name, {
    idKind,
    toRecord: (record) => record,
    examples: examplesOf((text, number, time, index) => {
      const values: Record<ColumnType, unknown> = {
        text,
        'text[]': [text],
        boolean: index % 2 === 0,
        integer: index,
        float8: number,
        numeric: String(number),
        'numeric(15, 3)': number,
        timestamptz: time,
      }
      const fields = columns.map(({ field, type }) => [field, values[type]])
      return { id: ids(idKind), ...Object.fromEntries(fields) }
    }),
    plain: (record, id) => ({ ...record, id }),
  })
}

/** The creations of all resources. */
export const kinds = {
  clients: kind<Client, Client>('clients', {
    idKind: 'cli',
    toRecord: (client) => client,
    examples: clientExamples,
    plain: (client, id) => ({ ...client, id, business: { ...client.business, id: ids('biz') } }),
  }),
  leads: kind<Lead, LeadRow>('leads', {
    idKind: 'lead',
    toRecord: async (lead, tenant) => ({ ...lead, businessId: await tenant.insertBusiness() }),
    examples: leadExamples,
    plain: (lead, id) => ({ ...lead, id }),
  }),
  invoices: kind<Invoice, Invoice>('invoices', {
    idKind: 'inv',
    toRecord: (invoice) => invoice,
    examples: invoiceExamples,
    plain: (invoice, id) => ({ ...invoice, id, number: id }),
  }),
  proposals: kind<Proposal, Proposal>('proposals', {
    idKind: 'prop',
    toRecord: (proposal) => proposal,
    examples: proposalExamples,
    plain: (proposal, id) => ({ ...proposal, id, number: id }),
  }),
  ...(Object.fromEntries(
    Object.keys(PLAIN_RESOURCES).map((name) => [name, plainKind(name as PlainName)]),
  ) as Record<PlainName, Kind>),
} as const

/** Returns the newest items of a kind without taking a token. */
export async function itemsOf(kind: Kind, tenant: Tenant, limit = 200): Promise<{ id: string }[]> {
  const request = { keyDigest: tenant.key.digest, scope: kind.scope, rateLimits: null }
  const { page } = await kind.admitAndList(tenant.store, request, { limit })
  return JSON.parse(String(page)) as { id: string }[]
}

/** Returns the ids of a page and `next` without taking a token. */
export async function pageOf(
  kind: Kind,
  tenant: Tenant,
  asked: PageRequest,
): Promise<{ ids: string[]; next: string | null | undefined }> {
  const request = { keyDigest: tenant.key.digest, scope: kind.scope, rateLimits: null }
  const { page, next } = await kind.admitAndList(tenant.store, request, asked)
  return { ids: (JSON.parse(String(page)) as { id: string }[]).map(({ id }) => id), next }
}

/** Reads a list of changes to the end. Returns the ids page by page and the position after the last page. */
export async function changesOf(
  kind: Kind,
  tenant: Tenant,
  since: Since,
  limit = 200,
): Promise<{ pages: string[][]; position: string }> {
  const request = { keyDigest: tenant.key.digest, scope: kind.scope, rateLimits: null }
  const pages: string[][] = []
  for (let from = since; ; ) {
    const { page, next, position } = await kind.admitAndList(tenant.store, request, { limit, since: from })
    if (typeof position !== 'string') throw new Error('The store gave no position')
    pages.push((JSON.parse(String(page)) as { id: string }[]).map(({ id }) => id))
    if (next == null) return { pages, position }
    if (next !== position) throw new Error('A page goes on from another position than it names')
    from = { position }
  }
}

/** Returns the ids of a kind's newest items. */
export async function idsOf(kind: Kind, tenant: Tenant, limit?: number): Promise<string[]> {
  return (await itemsOf(kind, tenant, limit)).map(({ id }) => id)
}
