import type { Platform } from '../../lib/platform.ts'
import type { Caller } from './_platform.ts'
import { clientIn, createInvoice, invoiceIn, leadIn, projectIn, proposalIn } from './_records.ts'

// Every call that accepts an idempotency key, with an input.

/** A call of the platform. */
export interface CallUnderTest {
  /** The name as used by hosts, for example `invoices.issue`. */
  readonly name: string
  /** The field with the record's id. Absent if the call creates a record. */
  readonly idField?: string
  /** Creates a record for the call and returns its id. */
  make(host: Caller): Promise<string>
  /** The input except for the id. */
  readonly fields: Readonly<Record<string, unknown>>
  /** Fields with different content, where `undefined` removes a field. Absent if the call only has an id. */
  readonly others?: Readonly<Record<string, unknown>>
  /** `true` if the call publishes an event. */
  readonly events: readonly string[]
}

const BUSINESS = { name: 'Atlas', category: 'Retail', city: 'Tunis', email: 'a@b.example', phone: '+216' }

const none = async (): Promise<string> => ''

/** Calls for businesses, clients and leads. */
const CUSTOMER_CALLS: readonly CallUnderTest[] = [
  {
    name: 'businesses.create',
    make: none,
    fields: BUSINESS,
    others: { city: 'Sfax' },
    events: ['business.created'],
  },
  {
    name: 'businesses.update',
    idField: 'businessId',
    make: async (host) => (await clientIn(host, 'active')).business.id,
    fields: { name: 'Borea' },
    others: { name: 'Bora' },
    events: [],
  },
  {
    name: 'clients.create',
    make: none,
    fields: BUSINESS,
    others: { category: undefined, city: undefined, email: undefined, phone: undefined },
    events: ['business.created', 'client.created'],
  },
  {
    name: 'clients.setStatus',
    idField: 'clientId',
    make: async (host) => (await clientIn(host, 'active')).id,
    fields: { status: 'inactive' },
    others: { status: 'active' },
    events: [],
  },
  {
    name: 'clients.setRevenue',
    idField: 'clientId',
    make: async (host) => (await clientIn(host, 'active')).id,
    fields: { totalRevenue: 1.5, monthlyRevenue: 2 },
    others: { monthlyRevenue: undefined },
    events: [],
  },
  {
    name: 'leads.create',
    idField: 'businessId',
    make: async (host) => (await leadIn(host, 'new')).businessId,
    fields: { leadScore: 62, expectedValue: 9500 },
    others: { leadScore: 63 },
    events: ['lead.created'],
  },
  {
    name: 'leads.setStage',
    idField: 'leadId',
    make: async (host) => (await leadIn(host, 'new')).lead.id,
    fields: { stage: 'won' },
    others: { stage: 'lost' },
    events: ['lead.stage_changed'],
  },
  {
    name: 'leads.setScore',
    idField: 'leadId',
    make: async (host) => (await leadIn(host, 'new')).lead.id,
    fields: { leadScore: 80 },
    others: { leadScore: null },
    events: [],
  },
  {
    name: 'leads.convert',
    idField: 'leadId',
    make: async (host) => (await leadIn(host, 'new')).lead.id,
    fields: {},
    events: ['lead.stage_changed', 'client.created'],
  },
]

/** Calls for documents. */
const DOCUMENT_CALLS: readonly CallUnderTest[] = [
  {
    name: 'proposals.create',
    make: none,
    fields: { title: 'Website', currency: 'TND', total: 4800, monthlyTotal: 150 },
    others: { monthlyTotal: undefined },
    events: ['proposal.created'],
  },
  {
    name: 'proposals.revise',
    idField: 'proposalId',
    make: async (host) => (await proposalIn(host, 'sent')).id,
    fields: { title: 'Other', total: 1 },
    others: { total: 2 },
    events: [],
  },
  {
    name: 'proposals.send',
    idField: 'proposalId',
    make: async (host) => (await proposalIn(host, 'draft')).id,
    fields: {},
    events: ['proposal.sent'],
  },
  {
    name: 'proposals.accept',
    idField: 'proposalId',
    make: async (host) => (await proposalIn(host, 'sent')).id,
    fields: { signedBy: 'Amina Ben Salah' },
    others: { signedBy: 'Amina' },
    events: ['proposal.accepted'],
  },
  {
    name: 'proposals.reject',
    idField: 'proposalId',
    make: async (host) => (await proposalIn(host, 'sent')).id,
    fields: {},
    events: ['proposal.rejected'],
  },
  {
    name: 'invoices.create',
    make: none,
    fields: { currency: 'TND', total: '1250', dueDate: '2099-01-31T00:00:00Z' },
    others: { total: '1251' },
    events: [],
  },
  {
    name: 'invoices.issue',
    idField: 'invoiceId',
    make: async (host) => (await createInvoice(host)).id,
    fields: {},
    others: { dueDate: '2099-01-31T00:00:00Z' },
    events: ['invoice.issued'],
  },
  {
    name: 'invoices.recordPayment',
    idField: 'invoiceId',
    make: async (host) => (await invoiceIn(host, 'issued')).id,
    fields: { amount: '1250' },
    others: { amount: '250' },
    events: ['payment.received', 'invoice.paid'],
  },
  {
    name: 'invoices.void',
    idField: 'invoiceId',
    make: async (host) => (await invoiceIn(host, 'issued')).id,
    fields: {},
    events: [],
  },
]

/** Calls for plain records. */
const PLAIN_CALLS: readonly CallUnderTest[] = [
  {
    name: 'projects.create',
    make: none,
    fields: { name: 'Relaunch', billingType: 'fixed', value: 12000 },
    others: { value: 1 },
    events: [],
  },
  {
    name: 'projects.hold',
    idField: 'projectId',
    make: (host) => make(host, 'projects'),
    fields: {},
    events: [],
  },
  {
    name: 'projects.resume',
    idField: 'projectId',
    make: async (host) => (await projectIn(host, 'on_hold')).id,
    fields: {},
    events: [],
  },
  {
    name: 'projects.complete',
    idField: 'projectId',
    make: (host) => make(host, 'projects'),
    fields: {},
    events: ['project.completed'],
  },
  {
    name: 'projects.cancel',
    idField: 'projectId',
    make: (host) => make(host, 'projects'),
    fields: {},
    events: [],
  },
]

export const CALLS: readonly CallUnderTest[] = [...CUSTOMER_CALLS, ...DOCUMENT_CALLS, ...PLAIN_CALLS]

/** Makes a call with the default fields and those of the test. */
export function invoke(
  { organizationId, platform }: Caller,
  { name, fields }: CallUnderTest,
  given: object,
): Promise<unknown> {
  return call(platform, name, organizationId, { ...fields, ...given })
}

/** Creates a record of a resource from its example and returns its id. */
export async function make(host: Caller, resource: string): Promise<string> {
  const create = CALLS.find(({ name }) => name === `${resource}.create`)
  if (create === undefined) throw new Error(`There is no example of ${resource}.create`)
  return Reflect.get(Object(await invoke(host, create, {})), 'id')
}

/** Makes a call by name with any arguments. */
export async function call(platform: Platform, name: string, ...given: readonly unknown[]): Promise<unknown> {
  const [resource = '', verb = ''] = name.split('.')
  return Reflect.apply(Reflect.get(Object(Reflect.get(platform, resource)), verb), undefined, given)
}
