import { randomBytes } from 'node:crypto'
import type { BusinessApiStore } from '../../lib/business-store.ts'
import type { Client, ClientChanges } from '../../lib/resources/clients.ts'
import type { Invoice, InvoiceChanges, PaidInvoice, Settlement } from '../../lib/resources/invoices.ts'
import type { Conversion, ConvertedLead, Lead, LeadChanges } from '../../lib/resources/leads.ts'
import type { Project } from '../../lib/resources/projects.ts'
import type { Proposal, ProposalChanges } from '../../lib/resources/proposals.ts'
import type { Change, ChangeKeyReservation, ChangeOutcome } from '../../lib/writes/change.ts'
import { type EventRecord, toEventRecord } from '../../lib/writes/event-envelope.ts'
import { placeholder, WHOLE_RECORD } from '../../lib/writes/placeholders.ts'
import { businessOf } from '../_business.ts'
import { itemsOf, type Kind, kinds } from './kinds.ts'
import { ids, type Tenant, WEEK_MS } from './tenant.ts'

// All methods that change a record, with a common interface, so that the common rules can be tested for each of them.

/** A record as returned by the API. */
export type Item = { readonly id: string }

/** A method that changes a record. */
export interface Verb {
  readonly name: string
  readonly kind: Kind
  /** Items that contain all values which could easily get lost. */
  readonly examples: readonly Item[]
  /** Returns a simple item in a state, by default `open`. */
  item(state?: string): Item
  /**
   * The placeholders that this method adds to those of the item, with their values for a simple item in state `open`.
   */
  readonly facts: readonly string[]
  /** Prepares a change. By default, it's allowed in any state and has no events or key. */
  prepare(tenant: Tenant, recordId: string, changes?: Partial<Prepared>): PreparedChange
  /** Returns the item after the change. */
  after(item: Item): Item
  /** Returns the item from the method's result. */
  shown(answer: unknown): unknown
}

/** The parts of a change that a test can set. */
export type Prepared = Omit<Change<unknown>, 'set'>
/** The outcome of any change. */
export type Outcome = ChangeOutcome<object, string>

/** A change that can be sent several times. */
export interface PreparedChange {
  readonly id: string
  send(store?: BusinessApiStore): Promise<Outcome>
}

interface VerbOf<Shown extends Item, Changes> {
  readonly name: string
  readonly kind: Kind
  item(state: string): Shown
  facts?: readonly string[]
  examples?: readonly Item[]
  set(): Changes
  call(store: BusinessApiStore, change: Change<Changes>): Promise<Outcome>
  after(item: Shown): Shown
  shown?(answer: unknown): unknown
}

function verb<Shown extends Item, Changes>(of: VerbOf<Shown, Changes>): Verb {
  return {
    name: of.name,
    kind: of.kind,
    examples: of.examples ?? of.kind.examples,
    item: (state = 'open') => of.item(state),
    facts: of.facts ?? [],
    prepare(tenant, recordId, changes = {}) {
      const change: Change<Changes> = {
        organizationId: tenant.id,
        id: ids('chg'),
        recordId,
        from: null,
        events: [],
        idempotency: null,
        set: of.set(),
        ...changes,
      }
      return { id: change.id, send: (store = tenant.store) => of.call(store, change) }
    },
    after: (item) => of.after(item as Shown),
    shown: of.shown ?? ((answer) => answer),
  }
}

const MOMENT = '2026-03-14T09:26:53.589Z'
const OTHER_MOMENT = '2027-01-31T23:59:59.999Z'

function clientItem(status: string): Client {
  const business = businessOf({ id: ids('biz'), city: 'Tunis', phone: '' })
  return {
    id: ids('cli'),
    status,
    totalRevenue: 10.5,
    monthlyRevenue: 0.001,
    convertedAt: MOMENT,
    business,
  }
}

function leadItem(stage: string): Lead {
  return {
    id: ids('lead'),
    stage,
    leadScore: 12.5,
    scoreBand: 'cold',
    expectedValue: 99_999_999_999.999,
    createdAt: MOMENT,
  }
}

function proposalItem(status: string): Proposal {
  const id = ids('prop')
  return {
    id,
    number: id,
    title: 'Website',
    status,
    version: 3,
    total: 4800.5,
    monthlyTotal: 0.125,
    currency: 'TND',
  }
}

/** Returns an invoice for 1250 TND, of which 250 are paid. */
export function invoiceItem(status: string): Invoice {
  const id = ids('inv')
  return {
    id,
    number: id,
    status,
    currency: 'TND',
    issueDate: MOMENT,
    dueDate: OTHER_MOMENT,
    total: '1250.000',
    amountPaid: '250.000',
    amountDue: '1000.000',
  }
}

function projectItem(status: string): Project {
  return { id: ids('proj'), name: 'Relaunch', status, billingType: 'hourly', value: 1234.567 }
}

/** Returns a settlement by a payment. */
export function settlement(amount: string, changes: Partial<Settlement> = {}): Settlement {
  return {
    payment: { id: ids('pay'), amount, receivedAt: MOMENT },
    settledStatus: 'paid',
    unsettledStatus: { issued: 'partially_paid' },
    settledEvents: [],
    ...changes,
  }
}

/** Returns a conversion with a new client id. */
export function conversion(changes: Partial<Conversion> = {}): Conversion {
  const client = {
    id: ids('cli'),
    status: 'active',
    totalRevenue: 0,
    monthlyRevenue: 0,
    convertedAt: MOMENT,
  }
  return { stage: 'won', client, clientEvents: [], ...changes }
}

/** The methods of all resources. */
export const verbs = {
  client: verb<Client, ClientChanges>({
    name: 'clients.change()',
    kind: kinds.clients,
    item: clientItem,
    set: () => ({ status: 'inactive', totalRevenue: 0.1 }),
    call: (store, change) => store.clients.change(change),
    after: (client) => ({ ...client, status: 'inactive', totalRevenue: 0.1 }),
  }),
  lead: verb<Lead, LeadChanges>({
    name: 'leads.change()',
    kind: kinds.leads,
    item: leadItem,
    facts: ['businessId', 'previousStage'],
    set: () => ({ stage: 'talking', leadScore: null }),
    call: (store, change) => store.leads.change(change),
    after: (lead) => ({ ...lead, stage: 'talking', leadScore: null }),
  }),
  conversion: verb<Lead, Conversion>({
    name: 'leads.convert()',
    kind: kinds.leads,
    item: leadItem,
    facts: ['businessId', 'previousStage', 'client', 'lead'],
    set: conversion,
    call: (store, change) => store.leads.convert(change),
    after: (lead) => ({ ...lead, stage: 'won' }),
    shown: (answer) => (answer as ConvertedLead).lead,
  }),
  proposal: verb<Proposal, ProposalChanges>({
    name: 'proposals.change()',
    kind: kinds.proposals,
    item: proposalItem,
    // The highest possible version plus one.
    examples: kinds.proposals.examples.filter((item) => (item as Proposal).version < 2_147_483_647),
    set: () => ({ status: 'draft', title: 'O\'Brien\\"\u2028🏺', currency: 'CLF', isRevision: true }),
    call: (store, change) => store.proposals.change(change),
    after: (proposal) => ({
      ...proposal,
      status: 'draft',
      title: 'O\'Brien\\"\u2028🏺',
      currency: 'CLF',
      version: proposal.version + 1,
    }),
  }),
  invoice: verb<Invoice, InvoiceChanges>({
    name: 'invoices.change()',
    kind: kinds.invoices,
    item: invoiceItem,
    set: () => ({ status: 'issued', issueDate: '1970-01-01T00:00:00.000Z' }),
    call: (store, change) => store.invoices.change(change),
    after: (invoice) => ({ ...invoice, status: 'issued', issueDate: '1970-01-01T00:00:00.000Z' }),
  }),
  payment: verb<Invoice, Settlement>({
    name: 'invoices.pay()',
    kind: kinds.invoices,
    item: invoiceItem,
    examples: [],
    facts: ['amount'],
    set: () => settlement('0.5', { unsettledStatus: { open: 'partially_paid' } }),
    call: (store, change) => store.invoices.pay(change),
    after: (invoice) => ({
      ...invoice,
      status: invoice.status === 'open' ? 'partially_paid' : invoice.status,
      amountPaid: '250.500',
      amountDue: '999.500',
    }),
    shown: (answer) => (answer as PaidInvoice).invoice,
  }),
  project: verb<Project, Pick<Project, 'status'>>({
    name: 'projects.change()',
    kind: kinds.projects,
    item: projectItem,
    set: () => ({ status: 'completed' }),
    call: (store, change) => store.projects.change(change),
    after: (project) => ({ ...project, status: 'completed' }),
  }),
} as const

/** Creates an item and returns it. */
export async function createItem(tenant: Tenant, verb: Verb, item: Item = verb.item()): Promise<Item> {
  await verb.kind.create(tenant, { item })
  return item
}

/** Returns an item as shown in the list. */
export async function listed(tenant: Tenant, verb: Verb, id: string): Promise<unknown> {
  return (await itemsOf(verb.kind, tenant)).find((item) => item.id === id)
}

/** Returns an event with the whole item, each of its fields, and the method's own facts. */
export function eventTemplate(verb: Verb, item: Item, type = 'lead.stage_changed'): EventRecord {
  const names = verb.name === 'leads.convert()' ? [] : Object.keys(item)
  const fields = Object.fromEntries(names.map((name) => [name, placeholder<Record<string, unknown>>(name)]))
  const facts = Object.fromEntries(
    verb.facts.map((name) => [name, placeholder<Record<string, unknown>>(name)]),
  )
  const data = { text: '"\\u0000id" é 🏺', whole: WHOLE_RECORD, fields, facts }
  return toEventRecord(ids('evt'), type, data, Date.parse(MOMENT))
}

/** Returns the data of a recorded event. */
export function dataOf({ body }: EventRecord): Record<string, unknown> {
  return JSON.parse(body).data
}

/** Reserves a new idempotency key for a change. */
export function changeClaim(changes: Partial<ChangeKeyReservation> = {}): ChangeKeyReservation {
  return {
    operation: 'projects.complete',
    key: `call-${randomBytes(6).toString('hex')}`,
    fingerprint: 'f'.repeat(64),
    windowMs: WEEK_MS,
    waitMs: 4000,
    ...changes,
  }
}
