import * as v from 'valibot'
import * as field from '../base/fields.ts'
import { eventType } from '../writes/event-envelope.ts'
import type { PlainStore, PlainTable, Updated } from './record-reads.ts'
import { listRoute, type Route } from './route.ts'

// --- Schemas (specification, section 2) ---

/** The schema of a project in the API. */
export const ProjectSchema = v.object({
  id: field.id('proj', 'The project.'),
  name: field.prose(200, 'The name of the project.', 'Showroom relaunch'),
  status: field.word('The state of the project.', 'active', 'on_hold', 'completed', 'cancelled'),
  billingType: field.word('The way of billing.', 'fixed', 'hourly', 'retainer'),
  value: field.amount('The value of the project.', 12000),
})

// --- Types ---

/** A project. `value` is a number with at most three decimals. */
export type Project = v.InferOutput<typeof ProjectSchema>
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

// --- Routes (specification, section 4) ---

/** Declares the operations on projects. */
function projectRoutes(store: PlainStore<Project>): readonly Route[] {
  return [
    listRoute({
      table: projectTable,
      many: 'projects',
      about: 'What the organization does.',
      representation: ProjectSchema,
      store,
    }),
  ]
}

/** The resource. With a create operation it also has `input`, the schema of its input. */
export const projects = { ...projectTable, events: projectEvents, routes: projectRoutes }
