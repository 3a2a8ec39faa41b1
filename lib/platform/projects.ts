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
  /** The project's value, with up to three decimal places. */
  readonly value: number
}

/** Identifies a project. */
export interface ProjectRef extends CallOptions {
  readonly projectId: string
}

/** Filtering and paging options for projects. Missing properties match everything. */
export interface ProjectQuery extends PageQuery, StatusFilter {}

/**
 * Project calls. Calls that take a project id throw `not_found` if the organization has no such project, and
 * `invalid_state` if the project's status doesn't allow the call.
 */
export interface ProjectCalls extends Reads<StoredProject, ProjectQuery> {
  /** Creates an active project. Doesn't publish anything. */
  create(organizationId: string, project: NewProject): Promise<Project>
  /** Active → on hold. Doesn't publish anything. */
  hold(organizationId: string, project: ProjectRef): Promise<Project>
  /** On hold → active. Doesn't publish anything. */
  resume(organizationId: string, project: ProjectRef): Promise<Project>
  /** Active or on hold → completed, which is final. Publishes `project.completed`. */
  complete(organizationId: string, project: ProjectRef): Promise<Project>
  /** Active or on hold → cancelled, which is final. Doesn't publish anything. */
  cancel(organizationId: string, project: ProjectRef): Promise<Project>
}

// --- Transitions (see the decisions on section 3 of the spec) ---

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
