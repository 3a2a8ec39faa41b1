import * as v from 'valibot'
import { blank } from '../blanks.ts'
import { type RecordedEvent, recordWithBlanks } from '../envelope.ts'
import { IdSchema } from '../input.ts'
import type { Making } from '../making.ts'
import { type Project, projectEvents } from '../projects.ts'
import type { RecordStore } from '../store.ts'
import {
  type CallOptions,
  type CallTools,
  changedItem,
  changeOf,
  createdItem,
  defineCall,
  withReply,
} from './calls.ts'
import { AmountSchema, TitleSchema } from './inputs.ts'

// --- Types ---

const BILLING_TYPES = ['fixed', 'hourly', 'retainer'] as const

/** How a project is billed. */
export type BillingType = (typeof BILLING_TYPES)[number]

/** A project to be created. */
export interface NewProject extends CallOptions {
  /** 1 to 200 characters. */
  readonly name: string
  readonly billingType: BillingType
  /** What it is worth, at most three decimals. */
  readonly value: number
}

/** A project by name. */
export interface ProjectRef extends CallOptions {
  readonly projectId: string
}

/**
 * What the host does with projects. Every call about one of them throws `not_found` for an id that the organization does
 * not have, and `invalid_state` when its status does not allow it.
 */
export interface ProjectCalls {
  /** Creates an active project. Publishes nothing. */
  create(organizationId: string, project: NewProject): Promise<Project>
  /** Active → on hold. Publishes nothing. */
  hold(organizationId: string, project: ProjectRef): Promise<Project>
  /** On hold → active. Publishes nothing. */
  resume(organizationId: string, project: ProjectRef): Promise<Project>
  /** Active or on hold → completed, which is final. Publishes `project.completed`. */
  complete(organizationId: string, project: ProjectRef): Promise<Project>
  /** Active or on hold → cancelled, which is final. Publishes nothing. */
  cancel(organizationId: string, project: ProjectRef): Promise<Project>
}

// --- Transitions (decisions on section 3 of the specification) ---

interface Transition {
  readonly from: readonly string[]
  readonly to: string
  events(projectId: string, making: Making): readonly RecordedEvent[]
}

const TRANSITIONS = {
  hold: { from: ['active'], to: 'on_hold', events: () => [] },
  resume: { from: ['on_hold'], to: 'active', events: () => [] },
  complete: {
    from: ['active', 'on_hold'],
    to: 'completed',
    events: (projectId, making) => [
      recordWithBlanks(projectEvents, 'project.completed', { projectId, name: blank('name') }, making),
    ],
  },
  cancel: { from: ['active', 'on_hold'], to: 'cancelled', events: () => [] },
} satisfies Record<string, Transition>

// --- Inputs ---

const CreateSchema = v.object({
  name: TitleSchema,
  billingType: v.picklist(BILLING_TYPES, `must be one of ${BILLING_TYPES.join(', ')}`),
  value: AmountSchema,
})
const RefSchema = v.object({ projectId: IdSchema })

// --- Calls ---

/** The calls about projects. */
export function createProjectCalls(store: Pick<RecordStore, 'projects'>, tools: CallTools): ProjectCalls {
  const readCreate = defineCall('projects.create', 'Cannot create the project', CreateSchema, tools)

  function transition(name: keyof typeof TRANSITIONS) {
    const { from, to, events }: Transition = TRANSITIONS[name]
    const readRef = defineCall(`projects.${name}`, `Cannot ${name} the project`, RefSchema, tools)
    return async (organizationId: string, given: ProjectRef): Promise<Project> => {
      const call = readRef(organizationId, given)
      const { projectId } = call.input
      const change = changeOf(call, {
        recordId: projectId,
        from,
        set: { status: to },
        events: events(projectId, call.making),
      })
      return changedItem(call, await store.projects.change(change), {})
    }
  }

  return {
    async create(organizationId, project) {
      const call = readCreate(organizationId, project)
      const { name, billingType, value } = call.input
      const record: Project = { id: call.making.ids('proj'), name, status: 'active', billingType, value }
      const idempotency = withReply(call.claim, record)
      const creation = { organizationId: call.organizationId, record, events: [], idempotency }
      return createdItem(call, await store.projects.create(creation), record)
    },
    hold: transition('hold'),
    resume: transition('resume'),
    complete: transition('complete'),
    cancel: transition('cancel'),
  }
}
