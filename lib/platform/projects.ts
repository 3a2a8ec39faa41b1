import * as v from 'valibot'
import { IdSchema } from '../base/host-input.ts'
import type { PageQuery } from '../base/page.ts'
import type { RecordStore } from '../business-store.ts'
import {
  type BillingType,
  type Project,
  projectEvents,
  projects,
  type StoredProject,
} from '../resources/projects.ts'
import type { StatusFilter } from '../resources/record-reads.ts'
import { buildEventTemplate } from '../writes/event-envelope.ts'
import { type CallOptions, type CallTools, changed, createBuildWrite, created } from './calls.ts'
import { createReads, type Reads, StatesSchema } from './reads.ts'

// --- Types ---

/** A new project. */
export interface NewProject extends CallOptions {
  /** 1 to 200 characters. */
  readonly name: string
  readonly billingType: BillingType
  /** Value of the project with up to three decimals. */
  readonly value: number
}

/** Identifies a project. */
export interface ProjectRef extends CallOptions {
  readonly projectId: string
}

/** Filters and pages projects. Absent fields match everything. */
export interface ProjectQuery extends PageQuery, StatusFilter {}

/**
 * Calls for projects. All calls that take a project's id throw `not_found` if the organization has no project with this
 * id, and `invalid_state` if the call isn't allowed in its status.
 */
export interface ProjectCalls extends Reads<StoredProject, ProjectQuery> {
  /** Creates an active project. Publishes nothing. */
  create(organizationId: string, project: NewProject): Promise<Project>
  /** Active → on hold. Publishes nothing. */
  hold(organizationId: string, project: ProjectRef): Promise<Project>
  /** On hold → active. Publishes nothing. */
  resume(organizationId: string, project: ProjectRef): Promise<Project>
  /** Active or on hold → completed. Completed is final. Publishes `project.completed`. */
  complete(organizationId: string, project: ProjectRef): Promise<Project>
  /** Active or on hold → cancelled. Cancelled is final. Publishes nothing. */
  cancel(organizationId: string, project: ProjectRef): Promise<Project>
}

// --- Transitions (decisions on section 3 of the specification) ---

const TRANSITIONS = {
  hold: { from: ['active'], to: 'on_hold', event: null },
  resume: { from: ['on_hold'], to: 'active', event: null },
  complete: { from: ['active', 'on_hold'], to: 'completed', event: 'project.completed' },
  cancel: { from: ['active', 'on_hold'], to: 'cancelled', event: null },
} as const

// --- Inputs ---

const { status: _, ...CREATE_FIELDS } = projects.fields
const REF_FIELDS = { projectId: IdSchema }
const FILTER = { statuses: v.exactOptional(StatesSchema) }

// --- Calls ---

/** Creates the project calls. */
export function createProjectCalls(store: Pick<RecordStore, 'projects'>, tools: CallTools): ProjectCalls {
  const build = createBuildWrite(tools)

  function transition(name: keyof typeof TRANSITIONS): ProjectCalls['hold'] {
    const { from, to, event } = TRANSITIONS[name]
    return build(`projects.${name}`, `Cannot ${name} the project`, REF_FIELDS, async (call) => {
      const { projectId } = call.input
      const events =
        event === null ? [] : [buildEventTemplate(projectEvents, event, { projectId }, call.context)]
      const change = { recordId: projectId, from, set: { status: to }, events }
      return changed(call, change, (given) => store.projects.change(given), {})
    })
  }

  return {
    ...createReads(['project', 'projects'], FILTER, () => store.projects),
    create: build('projects.create', 'Cannot create the project', CREATE_FIELDS, async (call) => {
      const { name, billingType, value } = call.input
      const record: Project = { id: call.context.ids('proj'), name, status: 'active', billingType, value }
      const prepared = { record, representation: record, events: [] }
      return created(call, prepared, (creation) => store.projects.create(creation))
    }),
    hold: transition('hold'),
    resume: transition('resume'),
    complete: transition('complete'),
    cancel: transition('cancel'),
  }
}
