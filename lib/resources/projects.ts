import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { oneOf } from '../base/host-input.ts'
import { eventType } from '../writes/event-envelope.ts'
import type { PlainTable, Updated } from './record-reads.ts'

// --- Schemas (section 2 of the spec) ---

const STATUSES = ['active', 'on_hold', 'completed', 'cancelled'] as const
const BILLING_TYPES = ['fixed', 'hourly', 'retainer'] as const

/** A project, as returned by the API. */
export const ProjectSchema = v.object({
  id: field.id('proj', 'ID of the project.'),
  name: field.prose(200, 'Name of the project.', 'Showroom relaunch'),
  status: field.word('Status of the project.', ...STATUSES),
  billingType: field.word('Billing type.', ...BILLING_TYPES),
  value: field.amount('Value of the project.', 12000),
})

/** The host's input. Imports have every field, `create` has all but the status. */
const projectFields = {
  name: field.text(1, 200),
  status: oneOf(STATUSES),
  billingType: oneOf(BILLING_TYPES),
  value: field.decimal(0),
}

// --- Types ---

/** A project. `value` is a number with up to three decimal places. */
export type Project = v.InferOutput<typeof ProjectSchema>
/** How a project is billed. */
export type BillingType = (typeof BILLING_TYPES)[number]
/** A project, as returned to the host. */
export interface StoredProject extends Project, Updated {}

// --- Columns ---

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

// --- Events (section 6 of the spec) ---

/** Project events by type. */
export const projectEvents = {
  'project.completed': eventType('A project was completed', 'Sent when the project is completed.', {
    projectId: field.id('proj', 'ID of the project.'),
    name: field.prose(200, 'Name of the project.', 'Showroom relaunch'),
  }),
}

// --- Resource ---

/** The resource and its operations. To support creating projects, add `create` with an input built by `inputOf()`. */
export const projects = {
  ...projectTable,
  fields: projectFields,
  events: projectEvents,
  about: 'Projects for clients.',
  representation: ProjectSchema,
}
