import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { oneOf } from '../base/host-input.ts'
import { eventType } from '../writes/event-envelope.ts'
import type { PlainTable, Updated } from './record-reads.ts'

// --- Schemas (specification, section 2) ---

const STATUSES = ['active', 'on_hold', 'completed', 'cancelled'] as const
/** The ways of billing a project. */
const BILLING_TYPES = ['fixed', 'hourly', 'retainer'] as const

/** The schema of a project in the API. */
export const ProjectSchema = v.object({
  id: field.id('proj', 'The project.'),
  name: field.prose(200, 'The name of the project.', 'Showroom relaunch'),
  status: field.word('The state of the project.', ...STATUSES),
  billingType: field.word('The way of billing.', ...BILLING_TYPES),
  value: field.amount('The value of the project.', 12000),
})

/** The host's input: all fields in an import, all but the status in `create`. */
const projectFields = {
  name: field.text(1, 200),
  status: oneOf(STATUSES),
  billingType: oneOf(BILLING_TYPES),
  value: field.decimal(0),
}

// --- Types ---

/** A project. `value` is a number with at most three decimals. */
export type Project = v.InferOutput<typeof ProjectSchema>
/** The billing of a project. */
export type BillingType = (typeof BILLING_TYPES)[number]
/** A project as the host reads it. */
export interface StoredProject extends Project, Updated {}

// --- Columns ---

/** The columns of projects. */
const projectTable: PlainTable<'project', Project> = {
  kind: 'project',
  idKind: 'proj',
  table: 'projects',
  columns: {
    id: {},
    name: {},
    status: { isChangeable: true },
    billingType: {},
    value: { type: 'numeric(15, 3)' },
  },
}

// --- Events (specification, section 6) ---

/** The events of projects. */
export const projectEvents = {
  'project.completed': eventType('A project was completed', 'Sent when the project is completed.', {
    projectId: field.id('proj', 'The project.'),
    name: field.prose(200, 'The name of the project.', 'Showroom relaunch'),
  }),
}

// --- The resource ---

/** The resource, with its operations. `create` declares a create operation: its input is made by `inputOf()` of the fields. */
export const projects = {
  ...projectTable,
  fields: projectFields,
  events: projectEvents,
  about: 'What the organization does.',
  representation: ProjectSchema,
}
