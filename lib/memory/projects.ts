import type { ProjectStore } from '../resources/projects.ts'
import { admitToPage } from './admission.ts'
import { applyChange } from './change.ts'
import { commit, draft, judgeKey, storeOnce } from './creation.ts'
import { getRecord, isOneOf, listRecords, withUpdatedAt } from './record-list.ts'
import type { Memory } from './state.ts'

/** Creates the slice of projects in memory. */
export function createProjectStore(memory: Memory): ProjectStore {
  return {
    async admitAndList(request, asked) {
      return admitToPage(
        memory,
        request,
        asked,
        ({ projects }) => projects,
        (project) => project,
      )
    },

    async create(creation) {
      const project = draft(memory, creation, ({ id }) => id)
      const { organization, record } = project
      return judgeKey(project) ?? commit(project, () => storeOnce(organization.projects, record.id, record))
    },

    async change(change) {
      return applyChange(memory, change, {
        find: ({ projects }) => projects.get(change.recordId),
        stateOf: ({ status }) => status,
        represent: (project) => project,
        decide(project, { projects }) {
          const changed = { ...project, ...change.set }
          return {
            representation: changed,
            write: () => projects.set(changed.id, changed),
            events: change.events,
          }
        },
      })
    },

    async list(organizationId, { statuses }, limit, before) {
      const { projects } = memory.organization(organizationId)
      return listRecords([...projects.values()].map(withUpdatedAt(projects)), {
        limit,
        before,
        isWanted: ({ status }) => isOneOf(statuses, status),
      })
    },

    async get(organizationId, id) {
      const { projects } = memory.organization(organizationId)
      const stored = projects.get(id)
      return getRecord(stored && withUpdatedAt(projects)(stored))
    },
  }
}
