import type { ProjectFilter, ProjectStore } from '../resources/projects.ts'
import { isOneOf } from './record-list.ts'
import { changeRecord, createRecord, readSlice } from './record-slice.ts'
import type { Memory, Organization } from './state.ts'

const records = ({ projects }: Organization) => projects

/** Creates the slice of projects in memory. */
export function createProjectStore(memory: Memory): ProjectStore {
  return {
    ...readSlice(memory, {
      records,
      shown: (project) => project,
      stored: (project) => project,
      isWanted: ({ status }, { statuses }: ProjectFilter) => isOneOf(statuses, status),
    }),
    create: async (creation) => createRecord(memory, records, creation),
    change: async (change) => changeRecord(memory, records, ({ status }) => status, change),
  }
}
