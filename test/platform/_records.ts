import type { LeadStage, NewInvoice } from '../../lib/platform.ts'
import type { Client } from '../../lib/resources/clients.ts'
import type { Invoice } from '../../lib/resources/invoices.ts'
import type { Lead } from '../../lib/resources/leads.ts'
import type { Project } from '../../lib/resources/projects.ts'
import type { Proposal } from '../../lib/resources/proposals.ts'
import type { Caller } from './_platform.ts'

// Records in each state that the platform knows, created with its own calls.

/** A time at which an invoice of {@link createInvoice} is overdue. */
export const OVERDUE_AT = '2020-02-01T00:00:00.000Z'

/** Creates an invoice over 1250 TND that was due in 2020. */
export function createInvoice(
  { organizationId, platform }: Caller,
  changes: Partial<NewInvoice> = {},
): Promise<Invoice> {
  return platform.invoices.create(organizationId, {
    currency: 'TND',
    total: '1250',
    issueDate: '2020-01-01T00:00:00.000Z',
    dueDate: '2020-01-31T00:00:00.000Z',
    ...changes,
  })
}

export type InvoiceState =
  | 'draft'
  | 'issued'
  | 'partially_paid'
  | 'overdue'
  | 'overdue, partially paid'
  | 'paid'
  | 'void'

/** Creates an invoice in a given state. A partially paid one has 250 paid. */
export async function invoiceIn(
  host: Caller,
  state: InvoiceState,
  changes?: Partial<NewInvoice>,
): Promise<Invoice> {
  const { organizationId, platform } = host
  const { invoices } = platform
  const draft = await createInvoice(host, changes)
  const ref = { invoiceId: draft.id }
  if (state === 'draft') return draft
  if (state === 'void') return invoices.void(organizationId, ref)
  const issued = await invoices.issue(organizationId, ref)
  switch (state) {
    case 'issued':
      return issued
    case 'paid':
      return (await invoices.recordPayment(organizationId, { ...ref, amount: issued.total })).invoice
    case 'partially_paid':
      return (await invoices.recordPayment(organizationId, { ...ref, amount: '250' })).invoice
    case 'overdue':
      break
    default:
      await invoices.recordPayment(organizationId, { ...ref, amount: '250' })
  }
  const [overdue] = await invoices.markOverdue(organizationId, { asOf: OVERDUE_AT })
  if (!overdue) throw new Error('The invoice is not overdue')
  return overdue
}

export type ProposalState = 'draft' | 'sent' | 'accepted' | 'rejected'

/** Creates a proposal over 4800 TND and 150 per month in a given state. */
export async function proposalIn(
  { organizationId, platform }: Caller,
  state: ProposalState,
): Promise<Proposal> {
  const { proposals } = platform
  const fields = { title: 'Website', currency: 'TND', total: 4800.125, monthlyTotal: 150 }
  const draft = await proposals.create(organizationId, fields)
  const ref = { proposalId: draft.id }
  if (state === 'draft') return draft
  const sent = await proposals.send(organizationId, ref)
  if (state === 'sent') return sent
  return state === 'accepted'
    ? proposals.accept(organizationId, { ...ref, signedBy: 'Amina Ben Salah' })
    : proposals.reject(organizationId, ref)
}

export type ProjectState = 'active' | 'on_hold' | 'completed' | 'cancelled'

/** Creates a project in a given state. */
export async function projectIn({ organizationId, platform }: Caller, state: ProjectState): Promise<Project> {
  const { projects } = platform
  const project = await projects.create(organizationId, {
    name: 'Relaunch',
    billingType: 'fixed',
    value: 12000,
  })
  const ref = { projectId: project.id }
  if (state === 'on_hold') return projects.hold(organizationId, ref)
  if (state === 'completed') return projects.complete(organizationId, ref)
  if (state === 'cancelled') return projects.cancel(organizationId, ref)
  return project
}

/** Creates a lead. Returns its id and that of its business. */
export interface LeadOfBusiness {
  readonly lead: Lead
  readonly businessId: string
}

/** Creates a lead in a given stage. Its business isn't a client. */
export async function leadIn(
  { organizationId, platform }: Caller,
  stage: LeadStage,
): Promise<LeadOfBusiness> {
  const { id: businessId } = await platform.businesses.create(organizationId, { name: 'Atlas Ceramics' })
  const lead = await platform.leads.create(organizationId, {
    businessId,
    leadScore: 62,
    expectedValue: 9500.5,
  })
  if (stage === 'new') return { lead, businessId }
  return { lead: await platform.leads.setStage(organizationId, { leadId: lead.id, stage }), businessId }
}

/** Creates a client with a given status. */
export async function clientIn(
  { organizationId, platform }: Caller,
  status: 'active' | 'inactive',
): Promise<Client> {
  const client = await platform.clients.create(organizationId, { name: 'Atlas Ceramics' })
  if (status === 'active') return client
  return platform.clients.setStatus(organizationId, { clientId: client.id, status })
}
