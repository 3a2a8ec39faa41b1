import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Resource } from '../../lib/access/scopes.ts'
import type { Invoice } from '../../lib/resources/invoices.ts'
import type { Project } from '../../lib/resources/projects.ts'
import type { Proposal } from '../../lib/resources/proposals.ts'
import { describeOnEveryStore, type Host, type NewHost, type PublishedEvent } from './_platform.ts'
import {
  type InvoiceState,
  invoiceIn,
  OVERDUE_AT,
  type ProjectState,
  type ProposalState,
  projectIn,
  proposalIn,
} from './_records.ts'

// Every call in every state of a record. This covers the transitions allowed by the decisions on section 3 of the
// specification, and all others. Leads and clients are in customers.test.ts.

const REFUSED = 'invalid_state'

describeOnEveryStore((newHost) => {
  testInvoices(newHost)
  testProposals(newHost)
  testProjects(newHost)
})

/** What a call does in a state: the changed fields and events, or the error code. */
type Expected<Shown> = readonly [changes: Partial<Shown>, ...events: string[]] | string

interface Table<Shown, State extends string, Call extends string> {
  readonly resource: Resource
  make(host: Host, state: State): Promise<Shown>
  readonly calls: Readonly<Record<Call, (host: Host, id: string, record: Shown) => Promise<Shown>>>
  readonly expected: Readonly<Record<State, Readonly<Record<Call, Expected<Shown>>>>>
  /** The data of the events by type. */
  data(type: string, record: Shown, before: Shown): object
}

function testTable<Shown extends { readonly id: string }, State extends string, Call extends string>(
  newHost: NewHost,
  { resource, make, calls, expected, data }: Table<Shown, State, Call>,
): void {
  for (const [state, row] of Object.entries(expected) as [State, Record<Call, Expected<Shown>>][]) {
    for (const [name, outcome] of Object.entries(row) as [Call, Expected<Shown>][]) {
      const does = typeof outcome === 'string' ? `is refused: ${outcome}` : describeChange(outcome)
      test(`${resource}: ${name} from ${state} ${does}`, async () => {
        const host = await newHost()
        const before = await make(host, state)
        const published = (await host.events()).length
        const everything = await host.everything()
        const attempt = calls[name](host, before.id, before)
        if (typeof outcome === 'string') {
          await assert.rejects(attempt, { name: 'BusinessApiError', code: outcome })
          assert.deepEqual(await host.everything(), everything, 'nothing has changed')
          return
        }
        const [changes, ...types] = outcome
        const after = { ...before, ...changes }
        assert.deepEqual(await attempt, after)
        assert.deepEqual(await host.list(resource), [after])
        const events = (await host.events()).slice(published)
        assert.deepEqual(
          events.map(withoutPaymentId),
          types.map((type) => ({ type, data: data(type, after, before) })),
        )
      })
    }
  }
}

function describeChange([changes, ...types]: readonly [object, ...string[]]): string {
  const said = JSON.stringify(changes).replaceAll('"', '')
  return `gives ${said} and publishes ${types.join(', ') || 'nothing'}`
}

/** Only the host's own store knows this organization. */
function withoutPaymentId({ type, data: { paymentId, ...data } }: PublishedEvent): object {
  if (type === 'payment.received') assert.match(String(paymentId), /^pay_[0-9A-HJKMNP-TV-Z]{26}$/)
  return { type, data }
}

function testInvoices(newHost: NewHost): void {
  type Call = 'issue' | 'part' | 'rest' | 'more' | 'void' | 'markOverdue'
  const pay = (amount: (invoice: Invoice) => string) => {
    return async ({ organizationId, platform }: Host, invoiceId: string, invoice: Invoice) => {
      const payment = { invoiceId, amount: amount(invoice) }
      return (await platform.invoices.recordPayment(organizationId, payment)).invoice
    }
  }
  const settled = { status: 'paid', amountPaid: '1250.000', amountDue: '0.000' }
  const paidOne = { amountPaid: '1.000', amountDue: '1249.000' }
  const paidMore = { amountPaid: '251.000', amountDue: '999.000' }
  const refused = { issue: REFUSED, part: REFUSED, rest: REFUSED, more: REFUSED, void: REFUSED }
  const both = ['payment.received', 'invoice.paid'] as const

  testTable<Invoice, InvoiceState, Call>(newHost, {
    resource: 'invoices',
    make: invoiceIn,
    calls: {
      issue: ({ organizationId, platform }, invoiceId) =>
        platform.invoices.issue(organizationId, { invoiceId }),
      part: pay(() => '1'),
      rest: pay(({ amountDue }) => (Number(amountDue) > 0 ? amountDue : '1')),
      more: pay(({ amountDue }) => `${amountDue.slice(0, -1)}1`),
      void: ({ organizationId, platform }, invoiceId) =>
        platform.invoices.void(organizationId, { invoiceId }),
      async markOverdue({ organizationId, platform }, _id, invoice) {
        const [marked] = await platform.invoices.markOverdue(organizationId, { asOf: OVERDUE_AT })
        return marked ?? invoice
      },
    },
    expected: {
      draft: {
        ...refused,
        issue: [{ status: 'issued' }, 'invoice.issued'],
        void: [{ status: 'void' }],
        markOverdue: [{}],
      },
      issued: {
        issue: REFUSED,
        part: [{ status: 'partially_paid', ...paidOne }, 'payment.received'],
        rest: [settled, ...both],
        more: 'overpayment',
        void: [{ status: 'void' }],
        markOverdue: [{ status: 'overdue' }, 'invoice.overdue'],
      },
      partially_paid: {
        issue: REFUSED,
        part: [paidMore, 'payment.received'],
        rest: [settled, ...both],
        more: 'overpayment',
        void: REFUSED,
        markOverdue: [{ status: 'overdue' }, 'invoice.overdue'],
      },
      overdue: {
        issue: REFUSED,
        part: [paidOne, 'payment.received'],
        rest: [settled, ...both],
        more: 'overpayment',
        void: [{ status: 'void' }],
        markOverdue: [{}],
      },
      'overdue, partially paid': {
        issue: REFUSED,
        part: [paidMore, 'payment.received'],
        rest: [settled, ...both],
        more: 'overpayment',
        void: REFUSED,
        markOverdue: [{}],
      },
      paid: { ...refused, markOverdue: [{}] },
      void: { ...refused, markOverdue: [{}] },
    },
    data(type, { id: invoiceId, number, currency, total, dueDate, amountPaid, amountDue }, before) {
      const named = { invoiceId, number }
      if (type === 'invoice.paid') return named
      if (type === 'invoice.issued') return { ...named, currency, total, dueDate }
      if (type === 'invoice.overdue') return { ...named, currency, amountDue, dueDate }
      const amount = amountPaid === '1250.000' ? before.amountDue : '1.000'
      return { ...named, currency, amount, amountPaid, amountDue }
    },
  })
}

function testProposals(newHost: NewHost): void {
  type Call = 'revise' | 'send' | 'accept' | 'reject'
  const revised = [{ status: 'draft', version: 2, title: 'Website and hosting', total: 5000 }] as const
  testTable<Proposal, ProposalState, Call>(newHost, {
    resource: 'proposals',
    make: proposalIn,
    calls: {
      revise: ({ organizationId, platform }, proposalId) =>
        platform.proposals.revise(organizationId, { proposalId, title: 'Website and hosting', total: 5000 }),
      send: ({ organizationId, platform }, proposalId) =>
        platform.proposals.send(organizationId, { proposalId }),
      accept: ({ organizationId, platform }, proposalId) =>
        platform.proposals.accept(organizationId, { proposalId, signedBy: 'Amina', signedAt: new Date() }),
      reject: ({ organizationId, platform }, proposalId) =>
        platform.proposals.reject(organizationId, { proposalId }),
    },
    expected: {
      draft: {
        revise: revised,
        send: [{ status: 'sent' }, 'proposal.sent'],
        accept: REFUSED,
        reject: REFUSED,
      },
      sent: {
        revise: revised,
        send: REFUSED,
        accept: [{ status: 'accepted' }, 'proposal.accepted'],
        reject: [{ status: 'rejected' }, 'proposal.rejected'],
      },
      accepted: { revise: REFUSED, send: REFUSED, accept: REFUSED, reject: REFUSED },
      rejected: { revise: revised, send: REFUSED, accept: REFUSED, reject: REFUSED },
    },
    data(_type, proposal) {
      const { id: proposalId, number, version, status } = proposal
      return { proposalId, number, version, status, proposal }
    },
  })
}

function testProjects(newHost: NewHost): void {
  type Call = 'hold' | 'resume' | 'complete' | 'cancel'
  const call = (name: Call) => {
    return ({ organizationId, platform }: Host, projectId: string) =>
      platform.projects[name](organizationId, { projectId })
  }
  const ended = {
    complete: [{ status: 'completed' }, 'project.completed'],
    cancel: [{ status: 'cancelled' }],
  } as const
  const refused = { hold: REFUSED, resume: REFUSED, complete: REFUSED, cancel: REFUSED }
  testTable<Project, ProjectState, Call>(newHost, {
    resource: 'projects',
    make: projectIn,
    calls: { hold: call('hold'), resume: call('resume'), complete: call('complete'), cancel: call('cancel') },
    expected: {
      active: { hold: [{ status: 'on_hold' }], resume: REFUSED, ...ended },
      on_hold: { hold: REFUSED, resume: [{ status: 'active' }], ...ended },
      completed: refused,
      cancelled: refused,
    },
    data: (_type, { id: projectId, name }) => ({ projectId, name }),
  })
}
