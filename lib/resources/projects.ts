import * as v from 'valibot'
import * as field from '../base/fields.ts'
import type { Change, ChangeOutcome } from '../writes/change.ts'
import type { Creation, CreationOutcome } from '../writes/creation.ts'
import { eventType } from '../writes/event-envelope.ts'
import type { RecordTable } from './columns.ts'
import type { ListedReads, Updated } from './record-reads.ts'
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
/** The fields of a project that a change can set. */
export type ProjectChanges = Pick<Project, 'status'>

// --- Columns ---

/** The columns of projects. */
export const projectTable: RecordTable<Project> = {
  kind: 'project',
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

// --- Store ---

/** Selects projects; an absent property selects all. */
export interface ProjectFilter {
  /** Any of these: `['active', 'on_hold']`. */
  readonly statuses?: readonly string[] | undefined
}

/** The slice of a store for projects. */
export interface ProjectStore extends ListedReads<Project, StoredProject, ProjectFilter> {
  /** Writes the project, the events and the idempotency entry at once or not at all. */
  create(creation: Creation<Project>): Promise<CreationOutcome>

  /** Changes a project's status. */
  change(change: Change<ProjectChanges>): Promise<ChangeOutcome<Project>>
}

// --- Routes (specification, section 4) ---

/** Declares the operations on projects. */
export function projectRoutes(store: ProjectStore): readonly Route[] {
  return [
    listRoute({
      one: 'project',
      many: 'projects',
      representation: ProjectSchema,
      idKind: 'proj',
      admitAndList: (request, asked) => store.admitAndList(request, asked),
    }),
  ]
}
