import type { ProjectFilter, ProjectStore } from '../resources/projects.ts'
import { applyChange } from './change.ts'
import { commit, draft, judgeKey, storeOnce } from './creation.ts'
import { isOneOf } from './record-list.ts'
import { readSlice } from './record-slice.ts'
import type { Memory } from './state.ts'

/** Creates the slice of projects in memory. */
export function createProjectStore(memory: Memory): ProjectStore {
  return {
    ...readSlice(memory, {
      records: ({ projects }) => projects,
      shown: (project) => project,
      stored: (project) => project,
      isWanted: ({ status }, { statuses }: ProjectFilter) => isOneOf(statuses, status),
    }),

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
  }
}
